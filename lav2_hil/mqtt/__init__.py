"""MQTT: the run as dashboards and other programs see it.

`payloads` says what is published where (`docs/mqtt.md` is made of it), `listener` hands it over in the loop's process,
`process` takes it to the broker in a process of its own, and `pipe` is what the two say to each other.
"""
