"""The scikit-learn interface of a method, without importing scikit-learn before someone else has.

Importing scikit-learn takes longer than protecting a small table, and forming groups needs none of it. What its
base classes do is done here in the same words; where its own objects are asked for (tags, a sentence on what was not
fitted), it is imported.
"""

from __future__ import annotations

import inspect
from typing import Any, Self

from shoal.typing import Keywords


class Estimator:
    """Parameters by name, and what scikit-learn asks a transformer about itself."""

    @classmethod
    def _parameters(cls) -> list[str]:
        return sorted(name for name in inspect.signature(cls.__init__).parameters if name != "self")

    @classmethod
    def takes(cls, parameter: str) -> bool:
        """Whether the method has a parameter of this name."""
        return parameter in cls._parameters()

    def get_params(self, deep: bool = True) -> Keywords:
        """Parameters by name.

        Parameters
        ----------
        deep : ignored
            No parameter has parameters of its own.
        """
        del deep
        return {name: getattr(self, name) for name in self._parameters()}

    def set_params(self, **params: Any) -> Self:
        """Change parameters by name."""
        known = self._parameters()
        for name, value in params.items():
            if name not in known:
                raise ValueError(
                    f"Invalid parameter {name!r} for estimator {self}. Valid parameters are: {known!r}."
                )
            setattr(self, name, value)
        return self

    def copy(self) -> Self:
        """The same parameters, nothing learned."""
        return type(self)(**self.get_params())

    def __repr__(self) -> str:
        defaults = inspect.signature(type(self).__init__).parameters
        changed = [
            f"{name}={value!r}"
            for name, value in self.get_params().items()
            if not (value is defaults[name].default or repr(value) == repr(defaults[name].default))
        ]
        return f"{type(self).__name__}({', '.join(changed)})"

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn asks an estimator about itself."""
        from sklearn.base import BaseEstimator, TransformerMixin

        class Transformer(TransformerMixin, BaseEstimator):
            pass

        return Transformer().__sklearn_tags__()


def check_fitted(estimator: Estimator) -> None:
    """Raise scikit-learn's `NotFittedError` where nothing was learned yet."""
    if not hasattr(estimator, "labels_"):
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(estimator, "labels_")
