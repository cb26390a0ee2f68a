"""The missions that come with the package: each module has `async def mission(vehicle)`."""
