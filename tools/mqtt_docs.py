"""Write `docs/mqtt.md` from the payloads: python tools/mqtt_docs.py."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

from lav2_hil.mqtt.payloads import SCHEMA, TOPICS, Payload

DOCS = Path(__file__).parents[1] / "docs" / "mqtt.md"

_HEAD = """\
# MQTT

<!-- Made by tools/mqtt_docs.py: change lav2_hil/mqtt/payloads.py and run it. -->

`--mqtt HOST[:PORT]` publishes a run (`lav2-hil run`, `lav2-hil sim`) to an MQTT 3.1.1 broker, below `lav2/<vehicle>/`.
`<vehicle>` is what `--name` says, by default the profile's name.

```
lav2-hil sim --mqtt localhost
mosquitto_sub -v -t 'lav2/#'
```

{table}

Payloads are JSON, UTF-8, in SI units; every field is always there. Version of the schemas: {version}. Fields and topics
may be added without a new version: ignore what you do not know.

* **State.** `online` while a run publishes, `offline` when it has ended in order, `lost` (the last will) when it was
  killed or its network went away.
* **The loop never waits.** A process of its own publishes. While the broker is away or slow it keeps the last 100
  events, and of each other topic the newest message; the rest is dropped, and counted in `health` and in the summary.
  It connects again for ever, and then renews everything that is retained.
* **One writer a name.** A run that finds a living writer under its name (`online`, with a `health` that is being
  renewed) does not start: exit code 69. A run that meets one later, because the broker was away, stops publishing with
  a warning and flies on; who has published longer stays.
* **Nothing is listened to**: no topic steers a run.

## Schemas
"""


def schema_of(payload: type[Payload]) -> dict[str, Any]:
    """JSON Schema of a payload."""
    schema: dict[str, Any] = msgspec.json.schema(payload)["$defs"][payload.__name__]
    schema["required"] = list(schema["properties"])  # what has a default is sent all the same
    return schema


def render() -> str:
    """The document."""
    rows = ["| topic | payload | QoS | retained | published |", "|---|---|---|---|---|"]
    parts = []
    for name, topic in TOPICS.items():
        title = topic.payload.__name__
        kept = "yes" if topic.retain else "no"
        rows.append(f"| `{name}` | [{title}](#{title.lower()}) | {topic.qos} | {kept} | {topic.when} |")
        parts.append(f"\n### {title}\n\n```json\n{json.dumps(schema_of(topic.payload), indent=2)}\n```\n")
    return _HEAD.format(table="\n".join(rows), version=SCHEMA) + "".join(parts)


if __name__ == "__main__":
    DOCS.parent.mkdir(exist_ok=True)
    DOCS.write_text(render(), encoding="utf-8")
