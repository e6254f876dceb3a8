"""What all valuators share: scikit-learn's manners, and where their values are."""

from __future__ import annotations

from typing import Any, ClassVar, Self

from torch import Tensor

from fwshapley.valuation.result import Valuation


class Valuator:
    """Keeps its arguments as attributes of their names, and what `fit` finds in `result_`."""

    result_: Valuation
    how_to_fit: ClassVar[str] = "fit(x, y)"

    def get_params(self, *, deep: bool = True) -> dict[str, Any]:
        """Return the arguments it was made with, as scikit-learn's `clone` asks for them."""
        del deep  # those of a model inside are its own affair
        return {name: value for name, value in vars(self).items() if not name.endswith("_")}

    def set_params(self, **changes: Any) -> Self:  # noqa: ANN401 - of any argument
        """Change some arguments."""
        unknown = changes.keys() - self.get_params().keys()
        if unknown:
            raise ValueError(
                f"there is no {', '.join(sorted(unknown))} to set; there are {', '.join(self.get_params())}"
            )
        vars(self).update(changes)
        return self

    @property
    def values_(self) -> Tensor:
        """Values of the points."""
        if not hasattr(self, "result_"):
            raise RuntimeError(f"nothing has been valued yet: call {self.how_to_fit} first")
        return self.result_.values
