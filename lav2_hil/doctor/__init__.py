"""Why a flight controller will not arm: `gather` listens, `rules` name the causes, `report` tells them."""
