"""MQTT against a real mosquitto: what is published, and that nothing the broker does touches the run."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import os
import re
import signal
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jsonschema
import pytest
from mosquitto import DeafSubscriber, Ear, Mosquitto, needs_mosquitto, publish

from bridge.endpoint import TcpOut
from bridge.hil import HilSession
from bridge.session_io import Notice
from firmware_profiles.errors import LinkUnavailableError
from firmware_profiles.loader import load_profile
from firmware_profiles.signals import HilControls
from lav2_hil.mqtt.listener import MqttListener
from lav2_hil.mqtt.payloads import TOPICS, Info, Shadow
from lav2_hil.mqtt.process import EVENTS
from lav2_hil.settings import DEFAULT_DATE, DEFAULT_HOME
from twin.twin import Twin

pytestmark = needs_mosquitto
SHADOW = Shadow(t_us=1, n=2, channels={"height_m": {"p05": 0.9, "p50": 1.0, "p95": 1.1, "live": 1.0, "rank": 0.5}})
DOCS = Path(__file__).parents[2] / "docs" / "mqtt.md"
CONTROLS = HilControls((0.5, math.nan, math.inf, *[0.0] * 13), armed=True, time_us=1_000_000)


def documented_schemas() -> dict[str, dict[str, Any]]:
    schemas = [json.loads(text) for text in re.findall(r"```json\n(.*?)```", DOCS.read_text("utf-8"), re.DOTALL)]
    return {schema["title"]: schema for schema in schemas}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Mosquitto]:
    mosquitto = Mosquitto(tmp_path)
    mosquitto.start()
    yield mosquitto
    mosquitto.kill()


@pytest.fixture
def listen() -> Iterator[Callable[[Mosquitto], Ear]]:
    ears: list[Ear] = []

    def listen_at(mosquitto: Mosquitto) -> Ear:
        ears.append(Ear(mosquitto.port))
        return ears[-1]

    yield listen_at
    for ear in ears:
        ear.close()


class Run:
    """A listener that is stepped as a loop would do it, and what it said."""

    def __init__(self, broker: Mosquitto, name: str = "lav2") -> None:
        self.said: list[tuple[int, str]] = []
        self.twin = Twin(load_profile("lav2").vehicle, home=DEFAULT_HOME, date=DEFAULT_DATE)
        self.session = HilSession(period_us=self.twin.tick_us)
        batch = self.twin.sense()
        self.time_us = 0
        self._sample = lambda: self.twin.sample_of(batch, self.time_us)
        self.longest_s = 0.0
        self.listener = MqttListener(
            TcpOut("127.0.0.1", broker.port),
            name,
            self._info,
            self.session,
            SimpleNamespace(dropped=3),  # type: ignore[arg-type]
            self.twin,
            lambda level, text: self.said.append((level, text)),
        )

    def _info(self) -> Info:
        return Info(t_us=0, profile="lav2", description="", endpoint="memory:x", seed=0, versions={"mujoco": "4"})

    def step(self) -> None:
        self.time_us += self.twin.tick_us
        begun = time.perf_counter()
        self.listener.stepped(CONTROLS, self._sample())
        self.longest_s = max(self.longest_s, time.perf_counter() - begun)

    def notice(self, text: str) -> None:
        self.listener.noticed(Notice(logging.WARNING, "test", text))

    async def fly(self) -> None:
        while True:
            self.step()
            await asyncio.sleep(0.01)

    def publishers(self) -> list[int]:
        """Ids of the publishing processes of this test."""
        return children("lav2_hil.mqtt.process")


def children(module: str) -> list[int]:
    """Our child processes that run a module."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
                parent = (entry / "stat").read_text().rpartition(")")[2].split()[1]
            except OSError:
                continue  # it has ended
            if module.encode() in words and int(parent) == os.getpid():
                found.append(int(entry.name))
    return found


@asynccontextmanager
async def flying(broker: Mosquitto, name: str = "lav2") -> AsyncIterator[Run]:
    run = Run(broker, name)
    async with run.listener:
        task = asyncio.create_task(run.fly())
        try:
            yield run
        finally:
            task.cancel()


async def until(condition: Callable[[], Any], timeout_s: float = 15) -> Any:
    async with asyncio.timeout(timeout_s):
        while not (value := condition()):
            await asyncio.sleep(0.02)
    return value


async def retained(broker: Mosquitto, **expected: str) -> dict[str, Any]:
    """What a newcomer is told, by the last part of the topic; as soon as the state is as expected."""
    async with asyncio.timeout(10):
        while True:
            ear = Ear(broker.port)
            await asyncio.sleep(0.1)
            ear.close()
            told = {heard.topic.rpartition("/")[2]: heard.payload for heard in ear.heard if heard.retain}
            if "state" in told and all(told["state"].get(key) == value for key, value in expected.items()):
                return told


async def test_every_topic_as_the_documentation_says(broker: Mosquitto, listen) -> None:
    ear = listen(broker)
    async with flying(broker, "my-lav_2") as run:
        run.notice("hello")
        run.listener.publish("twin/shadow", SHADOW)
        started = time.monotonic()
        await until(lambda: len(ear.of("lav2/my-lav_2/health")) >= 2)
        await until(lambda: len(ear.of("lav2/my-lav_2/telemetry/attitude")) >= 11)
        elapsed = time.monotonic() - started
        truth = run.twin.truth()
    await until(lambda: ear.of("lav2/my-lav_2/state")[-1].payload["state"] == "offline")
    assert {heard.topic for heard in ear.heard} == {f"lav2/my-lav_2/{topic}" for topic in TOPICS}
    schemas = documented_schemas()
    assert set(schemas) == {topic.payload.__name__ for topic in TOPICS.values()}
    for heard in ear.heard:
        topic = TOPICS[heard.topic.removeprefix("lav2/my-lav_2/")]
        schema = schemas[topic.payload.__name__]
        jsonschema.validate(heard.payload, schema)
        assert set(heard.payload) == set(schema["properties"])
        assert heard.qos == topic.qos
    by_topic = {heard.topic.removeprefix("lav2/my-lav_2/"): heard.payload for heard in ear.heard}
    assert by_topic["telemetry/attitude"]["q_wxyz"] == list(truth.q_ned_frd)
    position = by_topic["telemetry/position"]
    assert (position["lat_deg"], position["pos_ned"]) == (truth.lat_deg, list(truth.pos_ned))
    actuators = by_topic["telemetry/actuators"]
    assert actuators["controls"] == [0.5, None, None, *[0.0] * 13]
    assert actuators["armed"] is True
    assert 0 < actuators["t_us"] <= run.time_us
    assert (by_topic["health"]["link"], by_topic["health"]["drops"]) == ("waiting", 3)
    assert (by_topic["event"]["level"], by_topic["event"]["text"]) == ("warning", "hello")
    attitudes = len(ear.of("lav2/my-lav_2/telemetry/attitude"))
    assert attitudes <= elapsed / 0.1 + 2
    assert run.listener.summary() == {"published": len(ear.heard), "dropped": 0, "connects": 1, "connected": True}
    assert run.said == [(logging.INFO, f"MQTT: publishing as 'my-lav_2' to {broker.address}")]


async def test_a_newcomer_is_told_state_info_and_health(broker: Mosquitto, listen) -> None:
    async with flying(broker) as run:
        await until(lambda: run.listener.summary()["published"] >= 3)
        told = await retained(broker, state="online")
        assert set(told) == {"state", "info", "health"}
        assert told["info"]["versions"] == {"mujoco": "4"}
    assert set(await retained(broker, state="offline")) == {"state", "info", "health"}


async def test_the_last_will_of_a_killed_publisher_and_the_run_goes_on(broker: Mosquitto, listen) -> None:
    async with flying(broker) as run:
        (publisher,) = run.publishers()
        os.kill(publisher, signal.SIGKILL)
        await until(lambda: len(run.said) == 2)
        assert run.said[1] == (
            logging.WARNING,
            "MQTT: the publishing process ended: nothing is published any more",
        )
        await retained(broker, state="lost")
        dropped = run.listener.summary()["dropped"]
        await until(lambda: run.listener.summary()["dropped"] > dropped)
        assert run.listener.summary()["connected"] is False
    assert len(run.said) == 2


async def test_without_an_end_in_order_the_last_will_is_told(broker: Mosquitto, listen) -> None:
    """As when the run's process is killed: the socket is closed, and nothing was said."""
    async with flying(broker) as run:
        run.listener._socket.shutdown(2)
        await until(lambda: not [pid for pid in run.publishers() if running(pid)])
        await retained(broker, state="lost")


def running(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"


async def test_a_broker_that_comes_later_and_one_that_comes_back(broker: Mosquitto, listen) -> None:
    broker.kill()
    async with flying(broker) as run:
        assert len(run.said) == 1
        level, text = run.said[0]
        assert level == logging.WARNING
        assert text.startswith(f"MQTT: the broker {broker.address} does not answer (")
        await asyncio.sleep(0.5)
        run.notice("before the broker")
        broker.start()
        ear = listen(broker)
        await until(lambda: ear.of("lav2/lav2/event"))
        broker.kill()
        await until(lambda: len(run.said) == 3)
        assert run.said[2][0] == logging.WARNING
        assert f"{broker.address} is gone" in run.said[2][1]
        assert run.listener.summary()["connected"] is False
        run.notice("without a broker")
        dropped = run.listener.summary()["dropped"]
        await asyncio.sleep(0.5)
        broker.start()
        ear = listen(broker)
        await until(lambda: ear.of("lav2/lav2/telemetry/attitude") and ear.of("lav2/lav2/health"))
        await until(lambda: ear.of("lav2/lav2/event"))
        assert [heard.payload["text"] for heard in ear.of("lav2/lav2/event")] == ["without a broker"]
        assert set(await retained(broker, state="online")) == {"state", "info", "health"}
        await until(lambda: run.listener.summary()["dropped"] > dropped + 3)  # by and by it is reported
    summary = run.listener.summary()
    assert (summary["connects"], summary["connected"]) == (2, True)
    assert [level for level, _ in run.said] == [logging.WARNING, logging.INFO] * 2


async def test_an_event_on_its_way_to_a_broker_that_dies_is_published_again(broker: Mosquitto, listen) -> None:
    async with flying(broker) as run:
        await retained(broker, state="online")
        broker.pause()
        run.notice("first")
        await asyncio.sleep(0.3)
        run.notice("second")
        broker.kill()
        (publisher,) = run.publishers()
        os.kill(publisher, signal.SIGSTOP)  # so that it is not back before somebody listens
        broker.start()
        ear = listen(broker)
        os.kill(publisher, signal.SIGCONT)
        await until(lambda: len(ear.of("lav2/lav2/event")) == 2)
        assert [heard.payload["text"] for heard in ear.of("lav2/lav2/event")] == ["first", "second"]


@pytest.mark.slow
async def test_a_broker_that_stands_still_costs_the_oldest_and_no_time(broker: Mosquitto, listen) -> None:
    ear = listen(broker)
    async with flying(broker) as run:
        await until(lambda: ear.of("lav2/lav2/health"))
        begun = len(ear.of("lav2/lav2/telemetry/attitude"))
        broker.pause()
        for number in range(EVENTS + 50):
            run.notice(str(number))
            await asyncio.sleep(0.002)
        await asyncio.sleep(5)
        broker.resume()
        await until(lambda: ear.of("lav2/lav2/event") and ear.of("lav2/lav2/event")[-1].payload["text"] == "149")
        await asyncio.sleep(1)
        attitudes = [heard.payload["t_us"] for heard in ear.of("lav2/lav2/telemetry/attitude")]
    texts = [int(heard.payload["text"]) for heard in ear.of("lav2/lav2/event")]
    assert texts == sorted(texts)
    assert texts[-EVENTS:] == list(range(50, EVENTS + 50))  # the newest
    assert len(texts) <= EVENTS + 2  # and those that were on their way
    assert attitudes == sorted(attitudes)
    assert len(attitudes) - begun < 40  # of the 50 in those five seconds the newest, and what came after
    summary = run.listener.summary()
    assert summary["dropped"] >= 150 - len(texts) + 30
    assert (summary["connects"], summary["connected"]) == (1, True)
    assert run.longest_s < 0.1
    await until(lambda: len(ear.heard) == summary["published"])


async def test_a_publisher_that_stands_still_costs_messages_and_no_time(broker: Mosquitto) -> None:
    async with flying(broker) as run:
        (publisher,) = run.publishers()
        os.kill(publisher, signal.SIGSTOP)
        begun = time.perf_counter()
        for _ in range(5000):
            run.notice("x" * 200)
        assert time.perf_counter() - begun < 2.0
        not_taken = run.listener.summary()["dropped"]
        assert not_taken > 1000
        os.kill(publisher, signal.SIGCONT)
        await until(lambda: run.listener.summary()["dropped"] > not_taken)  # those that waited in the process
    assert run.listener.summary()["connected"] is True


async def test_a_publisher_that_stands_still_at_the_end_is_killed(broker: Mosquitto) -> None:
    async with flying(broker) as run:
        (publisher,) = run.publishers()
        os.kill(publisher, signal.SIGSTOP)
        begun = time.monotonic()
    assert 1.0 < time.monotonic() - begun < 4.0
    assert run.publishers() == []


async def test_a_broker_that_stands_still_at_the_end_gets_a_second(broker: Mosquitto, listen) -> None:
    async with flying(broker) as run:
        await asyncio.sleep(0.3)
        broker.pause()
        await asyncio.sleep(0.3)
        begun = time.monotonic()
    assert time.monotonic() - begun < 3.0
    summary = run.listener.summary()
    assert summary["connected"] is False
    assert summary["dropped"] >= 1
    broker.resume()
    ear = listen(broker)
    await until(lambda: ear.of("lav2/lav2/state") and ear.of("lav2/lav2/state")[-1].payload["state"] == "lost")


async def test_a_subscriber_that_never_reads_disturbs_nobody(broker: Mosquitto, listen) -> None:
    deaf = DeafSubscriber(broker.port)
    ear = listen(broker)
    async with flying(broker) as run:
        for _ in range(50):
            for _ in range(20):
                run.notice("y" * 5000)
            await asyncio.sleep(0.02)
        run.notice("the last")
        await until(lambda: ear.of("lav2/lav2/event")[-1].payload["text"] == "the last")
    summary = run.listener.summary()
    assert (summary["connects"], summary["connected"]) == (1, True)
    assert summary["published"] + summary["dropped"] >= 1001
    deaf.close()


# Two writers


async def test_a_second_writer_is_refused_and_the_first_does_not_notice(broker: Mosquitto, listen) -> None:
    async with flying(broker) as first:
        ear = listen(broker)
        second = Run(broker)
        with pytest.raises(LinkUnavailableError, match=f"another run publishes as 'lav2' to {broker.address}.*--name"):
            async with second.listener:
                pass
        assert second.said == []
        assert len(first.publishers()) == 1
        async with flying(broker, "other") as other:
            assert other.said[0][0] == logging.INFO
        assert {heard.payload["state"] for heard in ear.of("lav2/lav2/state")} == {"online"}
    assert first.listener.summary()["connects"] == 1
    assert len(first.said) == 1


@pytest.mark.parametrize("ended", ["offline", "lost"])
async def test_a_writer_that_has_ended_is_no_obstacle(broker: Mosquitto, ended: str) -> None:
    old = {"schema": 1, "t_us": 0, "state": ended, "writer": "old", "started_utc": "2020-01-01T00:00:00Z"}
    publish(broker.port, "lav2/lav2/state", json.dumps(old), retain=True)
    publish(broker.port, "lav2/lav2/health", "{}", retain=True)
    begun = time.monotonic()
    async with flying(broker) as run:
        assert time.monotonic() - begun < 1.4
        assert run.said[0][0] == logging.INFO


async def test_an_online_that_nobody_renews_is_taken_over(broker: Mosquitto, listen) -> None:
    old = {"schema": 1, "t_us": 0, "state": "online", "writer": "old", "started_utc": "2020-01-01T00:00:00Z"}
    publish(broker.port, "lav2/lav2/state", json.dumps(old), retain=True)
    publish(broker.port, "lav2/lav2/health", "{}", retain=True)
    async with flying(broker) as run:
        await until(lambda: run.said)
        assert run.said[0][0] == logging.INFO
        ear = listen(broker)
        await until(lambda: ear.of("lav2/lav2/state") and ear.of("lav2/lav2/state")[-1].payload["writer"] != "old")


@pytest.mark.parametrize("text", ["", "no JSON", '{"state": 1}', '{"state": "lost"}'])
async def test_the_retained_state_is_put_right(broker: Mosquitto, listen, text: str) -> None:
    """A last will of a connection that was replaced may come late."""
    async with flying(broker):
        await retained(broker, state="online")
        publish(broker.port, "lav2/lav2/state", text, retain=True)
        await retained(broker, state="online")
    await retained(broker, state="offline")


async def test_of_two_that_met_no_broker_one_gives_up_and_flies_on(broker: Mosquitto) -> None:
    broker.kill()
    async with flying(broker) as one, flying(broker) as two:
        broker.start()
        refused = (logging.WARNING, f"MQTT: another run publishes as 'lav2' to {broker.address}")
        await until(lambda: (refused in one.said) + (refused in two.said) == 1)
        winner, loser = (two, one) if refused in one.said else (one, two)
        await until(lambda: winner.listener.summary()["connected"])
        told = await retained(broker, state="online")
        await asyncio.sleep(1.5)
        assert (await retained(broker, state="online"))["state"]["writer"] == told["state"]["writer"]
        assert len(one.publishers()) == 1
        flown, dropped = loser.time_us, loser.listener.summary()["dropped"]
        await until(lambda: loser.time_us > flown and loser.listener.summary()["dropped"] > dropped)
    assert [level for level, _ in loser.said] == [logging.WARNING] * 2  # no broker; the other one
    assert winner.listener.summary()["connected"] is True
    assert loser.listener.summary()["connected"] is False
    assert (await retained(broker))["state"]["state"] == "offline"


async def test_who_has_published_keeps_the_name_when_the_broker_comes_back(broker: Mosquitto) -> None:
    async with flying(broker) as old:
        was = await retained(broker, state="online")
        broker.kill()
        await until(lambda: len(old.said) == 2)
        async with flying(broker) as new:
            broker.start()
            refused = (logging.WARNING, f"MQTT: another run publishes as 'lav2' to {broker.address}")
            await until(lambda: refused in new.said, 20)
            await until(lambda: old.listener.summary()["connected"])
            is_ = await retained(broker, state="online", writer=was["state"]["writer"])
            assert is_["state"]["writer"] == was["state"]["writer"]
        assert refused not in old.said
    assert old.listener.summary()["connects"] == 2


async def test_a_younger_writer_that_came_in_between_is_told_to_go(broker: Mosquitto) -> None:
    async with flying(broker) as old:
        was = await retained(broker, state="online")
        (publisher,) = old.publishers()
        os.kill(publisher, signal.SIGSTOP)
        broker.kill()
        broker.start()
        young = {"schema": 1, "t_us": 0, "state": "online", "writer": "young", "started_utc": "2100-01-01T00:00:00Z"}
        publish(broker.port, "lav2/lav2/state", json.dumps(young), retain=True)
        os.kill(publisher, signal.SIGCONT)
        for _ in range(40):
            publish(broker.port, "lav2/lav2/health", "{}")
            await asyncio.sleep(0.05)
        await retained(broker, state="online", writer=was["state"]["writer"])


async def test_the_older_writer_stays_when_a_younger_one_claims_unseen(broker: Mosquitto, listen) -> None:
    async with flying(broker) as run:
        young = {"schema": 1, "t_us": 0, "state": "online", "writer": "young", "started_utc": "2100-01-01T00:00:00Z"}
        ear = listen(broker)
        await until(lambda: ear.of("lav2/lav2/state"))
        publish(broker.port, "lav2/lav2/state", json.dumps(young), retain=True)
        await until(lambda: len(ear.of("lav2/lav2/state")) >= 3)
        assert (await retained(broker, state="online"))["state"]["writer"] != "young"
        assert len(run.said) == 1
