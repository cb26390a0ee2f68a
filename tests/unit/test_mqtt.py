"""MQTT without a broker: what `--mqtt` takes, and the documentation of what is published."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from lav2_hil.cli import main
from lav2_hil.settings import parse_broker

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("localhost", "localhost", 1883),
        ("broker.example.org:8883", "broker.example.org", 8883),
        ("192.168.1.5", "192.168.1.5", 1883),
        ("[::1]", "::1", 1883),
        ("[fe80::1%eth0]:1884", "fe80::1%eth0", 1884),
    ],
)
def test_a_broker_is_a_host_and_perhaps_a_port(text: str, host: str, port: int) -> None:
    broker = parse_broker(text)
    assert (broker.host, broker.port) == (host, port)


def refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    return captured.err


@pytest.mark.parametrize(
    "value",
    ["", ":1883", "host:", "host:0", "host:65536", "host:x", "::1", "[::1", "a b", "0.0.0.0", "300.1.1.1", "a:1:2"],
)
@pytest.mark.parametrize("command", [["sim"], ["run", "--profile", "lav2"]])
def test_a_bad_broker_is_a_usage_error(command: list[str], value: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert refused([*command, "--mqtt", value], capsys) == (
        f"error: --mqtt {value!r}: expected HOST[:PORT] such as localhost, 192.168.1.5:1883 or [::1]:1883\n"
    )


@pytest.mark.parametrize("name", ["a/b", "+", "#", "Lav2", "", "lav 2"])
def test_a_name_that_would_break_a_topic_is_a_usage_error(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    said = refused(["sim", "--mqtt", "localhost", "--name", name], capsys)
    assert said.startswith(f"error: --name {name!r}: ")


def test_a_profile_whose_name_would_break_a_topic_needs_a_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    profile = tmp_path / "mine.toml"
    profile.write_text('extends = "lav2"\nname = "My+LAV"\ndescription = "mine"\n', encoding="utf-8")
    said = refused(["sim", "--mqtt", "localhost", "--profile", str(profile)], capsys)
    assert said == "error: --mqtt: the profile's name 'My+LAV' cannot go into a topic: give a --name\n"


def test_the_documentation_is_what_the_payloads_say() -> None:
    render = runpy.run_path(str(ROOT / "tools" / "mqtt_docs.py"))["render"]
    assert (ROOT / "docs" / "mqtt.md").read_text("utf-8") == render(), "run tools/mqtt_docs.py"
