"""Sensor models: NED and FRD out, each with its own rate and noise."""
