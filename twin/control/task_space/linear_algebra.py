"""The linear algebra that controllers of an arm need: batched, in any array namespace `xp`, finite whatever the rank.

A world whose matrix holds NaN or infinity gets NaN, and no other world notices: some of the libraries' own functions
fail for the whole batch then.

Source: S. R. Buss, "Introduction to inverse kinematics with Jacobian transpose, pseudoinverse and damped least squares
methods", 2004.
"""

from __future__ import annotations

from typing import Any

from twin.control.so3 import transposed


def matvec(matrix: Any, vector: Any, *, xp: Any) -> Any:
    """(N, m) products of (N, m, n) matrices and (N, n) vectors."""
    return xp.matmul(matrix, vector[:, :, None])[:, :, 0]


def singular_values(matrix: Any, *, xp: Any) -> Any:
    """(N, k) singular values of (N, m, n), largest first; k is the smaller of m and n."""
    sound, matrix = _sound(matrix, xp=xp)
    values = xp.linalg.svdvals(matrix)
    return xp.where(sound[:, :, 0], values, xp.nan * xp.ones_like(values))


def truncated_inverse(matrix: Any, *, above: float = 0.0, above_share: float = 0.0, xp: Any) -> Any:
    """(N, n, m) pseudo-inverses of (N, m, n) that leave out the directions whose singular value is too small.

    Args:
        matrix: of any rank.
        above: a singular value that counts is greater than this; the inverse is then no larger than its reciprocal.
        above_share: and greater than this share of the largest.
        xp: array namespace.
    """
    sound, matrix = _sound(matrix, xp=xp)
    u, s, vh = xp.linalg.svd(matrix, full_matrices=False)
    inverted = _reciprocal(s, (s > above) & (s > above_share * s[:, 0:1]), xp=xp)
    inverse = xp.matmul(transposed(vh, xp=xp) * inverted[:, None, :], transposed(u, xp=xp))
    return xp.where(sound, inverse, xp.nan * xp.ones_like(inverse))


def pseudo_inverse(matrix: Any, *, xp: Any) -> Any:
    """(N, n, m) Moore-Penrose inverses of (N, m, n).

    Left out are singular values up to max(m, n) times the type's epsilon of the largest, which rounding cannot tell
    from 0; the convention of Torch. Just above that the inverse is as large as it is: who needs a bound takes another.
    """
    return truncated_inverse(matrix, above_share=max(matrix.shape[1:]) * _epsilon(matrix, xp=xp), xp=xp)


def damped_solve(matrix: Any, right: Any, damping_squared: Any, *, xp: Any) -> Any:
    """(N, n) damped least squares: A^T (A A^T + lambda^2 I)^-1 b, no longer than |b| / (2 lambda).

    lambda^2 is brought up to max(m, n) times the type's epsilon of the trace of A A^T, below which the sum would round
    to A A^T itself and might have no inverse; there the answer is bounded and no longer exact. Without a decomposition,
    which would take many times as long.

    Args:
        matrix: A (N, m, n), of any rank.
        right: b (N, m).
        damping_squared: lambda^2, a number of at least 0, or (N, 1).
        xp: array namespace.
    """
    back = transposed(matrix, xp=xp)
    trace = xp.sum(matrix * matrix, axis=(1, 2))[:, None]
    least = max(matrix.shape[1:]) * _epsilon(matrix, xp=xp) * trace
    damping = xp.maximum(least, damping_squared + xp.zeros_like(least))
    damping = xp.where(damping == 0, xp.ones_like(damping), damping)  # of a matrix of nothing, any would do
    gram = xp.matmul(matrix, back)
    # A full matrix's diagonal, and not `eye`, which would have to be told the device: under JAX's jit none is known.
    gram = gram + xp.tril(xp.triu(damping[:, :, None] + xp.zeros_like(gram)))
    inverse = xp.linalg.inv(gram)
    solution = matvec(inverse, right, xp=xp)
    # Once more for what is left over: A A^T was rounded at its largest, which in single precision is much of lambda^2.
    over = right - matvec(matrix, matvec(back, solution, xp=xp), xp=xp) - damping * solution
    return matvec(back, solution + matvec(inverse, over, xp=xp), xp=xp)


def symmetric_solve(matrix: Any, right: Any, *, xp: Any) -> Any:
    """(N, n, k) solutions X of A X = B, of the least norm where A (N, n, n) is singular.

    Of A the symmetric part is taken, and of its eigenvalues those above n times the type's epsilon of the largest in
    size: a row and column of zeros gives a row of zeros.
    """
    sound, matrix = _sound(matrix, xp=xp)
    values, vectors = xp.linalg.eigh(0.5 * (matrix + transposed(matrix, xp=xp)))
    size = xp.abs(values)
    least = matrix.shape[1] * _epsilon(matrix, xp=xp) * xp.max(size, axis=1, keepdims=True)
    inverted = _reciprocal(values, size > least, xp=xp)
    solution = xp.matmul(vectors, inverted[:, :, None] * xp.matmul(transposed(vectors, xp=xp), right))
    return xp.where(sound, solution, xp.nan * xp.ones_like(solution))


def _epsilon(array: Any, *, xp: Any) -> float:
    return float(xp.finfo(array.dtype).eps)


def _reciprocal(values: Any, kept: Any, *, xp: Any) -> Any:
    return xp.where(kept, 1.0 / xp.where(kept, values, xp.ones_like(values)), xp.zeros_like(values))


def _sound(matrix: Any, *, xp: Any) -> tuple[Any, Any]:
    """(N, 1, 1) truth, whether a matrix has numbers only; and the matrices, with those that have not as zeros."""
    sound = xp.all(xp.isfinite(matrix), axis=(1, 2), keepdims=True)
    return sound, xp.where(sound, matrix, xp.zeros_like(matrix))
