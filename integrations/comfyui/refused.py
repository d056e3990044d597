"""The one error that the nodes raise."""


class Refused(Exception):
    """A sentence for people that ends in a next step. ComfyUI shows it as it is."""
