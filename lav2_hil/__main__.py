"""`python -m lav2_hil` is `lav2-hil`."""

from lav2_hil.cli import main

main()
