"""The errors that a user's mistake can raise, each with the value, what is allowed, and what to do."""


class PliantError(Exception):
    """Base of every error that pliant raises on purpose."""


class InputError(PliantError):
    """An argument, a path or data that cannot be used."""


class UnsupportedModelError(PliantError):
    """A model, or a part of one, that no family understands."""


class BudgetError(PliantError):
    """A budget that is malformed, or that no cut can meet."""


class ArtefactError(PliantError):
    """A saved ranking or elastic directory that is damaged, or belongs to another model."""


class MissingExtraError(PliantError):
    """A feature whose optional packages are not installed."""

    def __init__(self, feature: str, extra: str) -> None:
        """Say which `feature` needs which `extra`, and how to install it."""
        super().__init__(f"{feature} needs packages that are not installed. Run: pip install 'pliant[{extra}]'")
