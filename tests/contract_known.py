"""Rows of the contract that are not refused as they should be yet, by source file, with what is seen instead."""

KNOWN: frozenset[str] = frozenset(
    {
        # src/fwshapley/baselines/registry.py
        # src/fwshapley/choosing.py
        # src/fwshapley/explainer.py
        # src/fwshapley/explainer_report.py
        # src/fwshapley/games/retraining.py
        # src/fwshapley/players.py
        "columns: names is with None",  # accepted silently
        "segments: names is with None",  # accepted silently
        "Players: assignment is None",  # AttributeError: 'NoneType' object has no attribute 'is_meta'
        "Players: assignment is a list",  # AttributeError: 'list' object has no attribute 'is_meta'
        "Players: names is None",  # TypeError: object of type 'NoneType' has no len()
        "Players: names is twice the same",  # accepted silently
        "Players: names is a number",  # TypeError: object of type 'int' has no len()
        "Players.check: x is None",  # AttributeError: 'NoneType' object has no attribute 'shape'
        # src/fwshapley/recipes.py
        # src/fwshapley/results.py
        "Attribution.of: weights is text",  # ValueError: Shapley was not asked for; there are Shapley, Banzhaf(0.5)
        "Attribution.of: weights is a function",  # ValueError: <function Shapley> was not asked for; there are Shaple
        "Attribution.to: device is unknown",  # RuntimeError: Expected one of cpu, cuda, ipu, xpu, mkldnn, opengl, ope
        "Attribution.to: device is not there",  # AssertionError: Torch not compiled with CUDA enabled
        "Attribution.plot: rows is None",  # TypeError: 'NoneType' object is not iterable
        "Attribution.plot: rows is text",  # TypeError: new(): invalid data type 'str'
        "Attribution.plot: rows is a bool",  # accepted silently
        "Attribution.plot: rows is too large",  # IndexError: index 99 is out of bounds for dimension 0 with size 6
        "Attribution.plot: output is text",  # TypeError: full_like(): argument 'fill_value' (position 2) must be Numb
        "Attribution.plot: output is a bool",  # accepted silently
        "Attribution.plot: output is negative",  # accepted silently
        "Attribution.plot: output is too large",  # IndexError: index 9 is out of bounds for dimension 1 with size 3
        "Attribution.plot: names is a number",  # TypeError: 'int' object is not iterable
        "Attribution.plot: names is too few",  # ValueError: zip() argument 2 is longer than argument 1
        # src/fwshapley/surrogate.py
        # src/fwshapley/valuation/learned/amortized.py
        # src/fwshapley/valuation/retraining.py
    }
)
