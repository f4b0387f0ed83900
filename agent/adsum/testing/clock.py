"""When simulated time begins."""

# Any date serves; a fixed one keeps runs equal. This is the first day of the project.
FIRST_WALL_MS = 1_795_000_000_000
