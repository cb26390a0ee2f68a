"""The gate's checks against mutants of the gate: each way to break it must be noticed.

Mutants are made from the syntax tree, in memory, one change each: a condition that always or never holds, a condition
turned round, a part of a compound one left out, a call of `min`, `max` or `isfinite` left out, a constant changed, a
statement left out.
"""

import ast
import copy
import types
from collections.abc import Iterator
from pathlib import Path

import pytest
from gate_checks import CHECKS

from lav2_hil import gate

SOURCE = Path(gate.__file__).read_text(encoding="utf-8")

EQUIVALENT = {
    # `passes` looks for None itself; `clean` repeats it for the type checker.
    "leave out 'controls is None' of 'controls is None or not self.passes(controls)'",
    "'controls is None' never holds",
}


def replacements(node: ast.AST) -> Iterator[tuple[str, ast.AST | None]]:
    """(what is done, what stands in the node's place; None takes a statement out)."""
    text = ast.unparse(node)
    if isinstance(node, ast.BoolOp):
        for part in node.values:
            rest = [value for value in node.values if value is not part]
            new = rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest)
            yield f"leave out {ast.unparse(part)!r} of {text!r}", new
        other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        yield f"and for or, or for and, in {text!r}", ast.BoolOp(other, node.values)
    if isinstance(node, ast.BoolOp | ast.Compare | ast.Attribute | ast.Call) and is_condition(text):
        yield f"{text!r} always holds", ast.Constant(True)
        yield f"{text!r} never holds", ast.Constant(False)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield f"leave out the not of {text!r}", node.operand
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("min", "max"):
        for argument in node.args:
            yield f"{ast.unparse(argument)!r} for {text!r}", argument
        other_name = ast.Name("max" if node.func.id == "min" else "min", ast.Load())
        yield f"{other_name.id} for {text!r}", ast.Call(other_name, node.args, [])
    if isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield f"{not node.value} for {text!r}", ast.Constant(not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        for value in (node.value + 1, node.value - 1):
            yield f"{value} for {text!r}", ast.Constant(value)
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
        yield f"leave out {text!r}", None
    if isinstance(node, ast.AugAssign):
        yield f"leave out {text!r}", None
        yield f"set instead of add in {text!r}", ast.Assign([node.target], node.value)


def is_condition(text: str) -> bool:
    return any(word in text for word in ("is None", "is not None", "armed", "stale", "passes(", "isfinite("))


def mutants() -> Iterator[tuple[str, ast.Module]]:
    original = ast.parse(SOURCE)
    for place, node in enumerate(ast.walk(original)):
        for what, new in replacements(node):
            tree = copy.deepcopy(original)
            target = next(candidate for index, candidate in enumerate(ast.walk(tree)) if index == place)
            put(tree, target, ast.Pass() if new is None else copy.deepcopy(new))
            yield f"line {getattr(node, 'lineno', 0)}: {what}", ast.fix_missing_locations(tree)


def put(tree: ast.AST, target: ast.AST, new: ast.AST) -> None:
    for parent in ast.walk(tree):
        for field, value in ast.iter_fields(parent):
            if value is target:
                setattr(parent, field, new)
                return
            if isinstance(value, list) and any(item is target for item in value):
                setattr(parent, field, [new if item is target else item for item in value])
                return
    raise AssertionError("no such node")


def module_of(tree: ast.Module) -> types.ModuleType:
    module = types.ModuleType("mutant")
    exec(compile(tree, "<mutant of the gate>", "exec"), vars(module))
    return module


def complaint(module: types.ModuleType) -> str | None:
    """The first check that notices something, None when all are content."""
    for check in CHECKS:
        try:
            check(module)
        except Exception:
            return check.__name__
    return None


MUTANTS = dict(mutants())


def test_the_unchanged_gate_passes_all_checks() -> None:
    assert complaint(module_of(ast.parse(SOURCE))) is None


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_noticed(name: str) -> None:
    noticed_by = complaint(module_of(MUTANTS[name]))
    if name.partition(": ")[2] in EQUIVALENT:
        assert noticed_by is None, "this mutant is not equivalent: take it off the list"
    else:
        assert noticed_by is not None, f"survived: {name}"


def test_each_guard_has_its_mutants() -> None:
    """The list of mutants covers what makes the gate a gate; the mutation itself must not rot away."""
    names = "\n".join(MUTANTS)
    for guard in (
        "leave out 'controls.armed'",
        "leave out 'not controls.stale'",
        "leave out 'not self.passes(controls)'",
        "'math.isfinite(value)' always holds",
        "'value' for 'max(value, low)'",  # no lower limit
        "'max(value, low)' for 'min(max(value, low), high)'",  # no upper limit
        "True for 'False'",  # live by default
        "1.0 for '0.0'",  # not 0 by default, or another range
    ):
        assert guard in names, guard
    assert len(MUTANTS) >= 40
