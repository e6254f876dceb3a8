"""Parts of networks that predict attributions: the basis in which they expand them over t."""

from fwshapley.networks.basis import HatBasis

__all__ = ["HatBasis"]
