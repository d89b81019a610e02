"""`python -m tammes.cli` does what `tammes` does."""

from tammes.cli import main

main()
