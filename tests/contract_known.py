"""Rows of the contract that are not refused as they should be yet, by source file, with what is seen instead."""

KNOWN: frozenset[str] = frozenset(
    {
        # src/fwshapley/baselines/registry.py
        # src/fwshapley/choosing.py
        # src/fwshapley/explainer.py
        "FeatureExplainer.attribute: x is None",
        "FeatureExplainer.attribute: x is a number",
        "FeatureExplainer.game: x is None",
        "FeatureExplainer.game: x is a dict",
        "FeatureExplainer.game: x is ragged",
        "FeatureExplainer.game: x is on no device",
        "FeatureExplainer: model is a class",  # accepted silently
        "FeatureExplainer: removal is None",  # RuntimeError: Could not infer dtype of NoneType
        "FeatureExplainer: removal is a dict",  # RuntimeError: Could not infer dtype of dict
        "FeatureExplainer: removal is complex",  # accepted silently
        "FeatureExplainer: removal is ragged",  # ValueError: expected sequence of length 1 at dim 1 (got 2)
        "FeatureExplainer: removal is objects",  # RuntimeError: Could not infer dtype of Odd
        "FeatureExplainer: output_names is with None",  # accepted silently
        "FeatureExplainer: output_names is empty",  # accepted silently
        "FeatureExplainer.fit: x_train is ragged",  # ValueError: setting an array element with a sequence. The reques
        "FeatureExplainer.fit: x_valid is on no device",  # RuntimeError: Tensor.item() cannot be called on meta tenso
        "FeatureExplainer.fit: augment is a number",  # TypeError: 'int' object is not callable
        "FeatureExplainer.fit: augment is text",  # TypeError: 'str' object is not callable
        "FeatureExplainer.fit: augment is of another shape",  # accepted silently
        "FeatureExplainer.fit: augment is of None",  # TypeError: 'NoneType' object is not subscriptable
        "FeatureExplainer.fit: the network is no module",  # AttributeError: 'int' object has no attribute 'to'
        "FeatureExplainer.fit: the model raises KeyError",  # KeyError: 'odd'
        "FeatureExplainer.fit: the model raises AssertionError",  # AssertionError: odd
        "FeatureExplainer.fit: the model raises AttributeError",  # AttributeError: odd
        "FeatureExplainer.fit: the model raises TypeError",  # TypeError: odd
        "FeatureExplainer.explain: x is on no device",  # NotImplementedError: Cannot copy out of meta tensor; no data
        "FeatureExplainer.game: x is text",  # TypeError: new(): invalid data type 'str'
        "FeatureExplainer.distill: network is of no module",  # AttributeError: 'int' object has no attribute 'to'
        "FeatureExplainer.distill: augment is a number",  # TypeError: 'int' object is not callable
        "FeatureExplainer.distill: augment is text",  # TypeError: 'str' object is not callable
        "FeatureExplainer.distill: augment is of another shape",  # accepted silently
        "FeatureExplainer.distill: augment is of None",  # TypeError: 'NoneType' object is not subscriptable
        "FeatureExplainer.load: model is of another architecture",  # ValueError: FOLDER/image/explainer.safetensors d
        "FeatureExplainer.load: network is a number",  # KeyError: 3
        "FeatureExplainer.load: network is text",  # KeyError: 'nonsense'
        "FeatureExplainer.load: network is of no module",  # AttributeError: 'int' object has no attribute 'to'
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
        "Surrogate: network is None",  # accepted silently
        "Surrogate: network is a number",  # accepted silently
        "Surrogate: network is a function",  # accepted silently
        "Surrogate: players is None",  # accepted silently
        "Surrogate: players is a number",  # accepted silently
        "Surrogate: players is a list",  # accepted silently
        "Surrogate: fill is None",  # accepted silently
        "Surrogate: fill is without rows",  # accepted silently
        "Surrogate: fill is of another width",  # accepted silently
        "Surrogate: fill is with NaN",  # accepted silently
        "Surrogate: kind is unknown",  # accepted silently
        "Surrogate: kind is None",  # accepted silently
        "Surrogate: kind is a list",  # accepted silently
        "TableSurrogate: x is None",  # AttributeError: 'NoneType' object has no attribute 'shape'
        "TableSurrogate: x is a list",  # AttributeError: 'list' object has no attribute 'shape'
        "TableSurrogate: x is of another width",  # accepted silently
        "TableSurrogate: x is one row",  # IndexError: tuple index out of range
        "TableSurrogate: x is without rows",  # IndexError: amax(): Expected reduction dim 0 to have non-zero size.
        "TableSurrogate: x is with NaN",  # accepted silently
        "TableSurrogate: x is complex",  # RuntimeError: nansum on CPU does not support complex inputs
        "TableSurrogate: players is None",  # AttributeError: 'NoneType' object has no attribute 'n_players'
        "TableSurrogate: players is a number",  # AttributeError: 'int' object has no attribute 'n_players'
        "TableSurrogate: players is a list",  # AttributeError: 'list' object has no attribute 'n_players'
        "TableSurrogate: players is of images",  # accepted silently
        "TableSurrogate: outputs is text",  # TypeError: empty(): argument 'size' (position 1) must be tuple of ints,
        "TableSurrogate: outputs is a bool",  # TypeError: empty(): argument 'size' (position 1) must be tuple of ints
        "TableSurrogate: outputs is zero",  # accepted silently
        "train_surrogate: surrogate is None",  # AttributeError: 'NoneType' object has no attribute 'parameters'
        "train_surrogate: surrogate is a number",  # AttributeError: 'int' object has no attribute 'parameters'
        "train_surrogate: surrogate is a function",  # AttributeError: 'function' object has no attribute 'parameters'
        "train_surrogate: model is None",  # AttributeError: 'NoneType' object has no attribute 'parameters'
        "train_surrogate: model is a number",  # AttributeError: 'int' object has no attribute 'parameters'
        "train_surrogate: model is a function",  # AttributeError: 'function' object has no attribute 'parameters'
        "train_surrogate: model is of another width",  # RuntimeError: mat1 and mat2 shapes cannot be multiplied (20x4
        "train_surrogate: x is None",  # AttributeError: 'NoneType' object has no attribute 'split'
        "train_surrogate: x is a list",  # AttributeError: 'list' object has no attribute 'split'
        "train_surrogate: x is without rows",  # IndexError: index 0 is out of bounds for dimension 0 with size 0
        "train_surrogate: x is of another width",  # RuntimeError: mat1 and mat2 shapes cannot be multiplied (6x7 and
        "train_surrogate: x is with NaN",  # FloatingPointError: training the surrogate diverged at step 1: the loss i
        "train_surrogate: x is complex",  # RuntimeError: mat1 and mat2 must have the same dtype, but got ComplexFloat
        "train_surrogate: n_players is text",  # TypeError: rand(): argument 'size' failed to unpack the object at pos
        "train_surrogate: n_players is a bool",  # IndexError: index 1 is out of bounds for dimension 0 with size 1
        "train_surrogate: n_players is zero",  # IndexError: index is out of bounds for dimension with size 0
        "train_surrogate: n_players is another",  # RuntimeError: mat1 and mat2 shapes cannot be multiplied (20x11 and
        "train_surrogate: output is unknown",  # KeyError: 'nonsense'
        "train_surrogate: output is None",  # KeyError: None
        "train_surrogate: output is a list",  # TypeError: unhashable type: 'list'
        "train_surrogate: seed is None",  # RuntimeError: manual_seed expected a long, but got NoneType
        "train_surrogate: seed is a bool",  # RuntimeError: manual_seed expected a long, but got bool
        "train_surrogate: seed is negative",  # accepted silently
        "train_surrogate: seed is too large",  # ValueError: Overflow when unpacking long long
        "train_surrogate: seed is a generator of numpy",  # RuntimeError: manual_seed expected a long, but got numpy.r
        "measure_fidelity: surrogate is None",  # AttributeError: 'NoneType' object has no attribute 'parameters'
        "measure_fidelity: surrogate is a number",  # AttributeError: 'int' object has no attribute 'parameters'
        "measure_fidelity: surrogate is a function",  # AttributeError: 'function' object has no attribute 'parameters
        "measure_fidelity: model is None",  # AttributeError: 'NoneType' object has no attribute 'parameters'
        "measure_fidelity: model is a number",  # AttributeError: 'int' object has no attribute 'parameters'
        "measure_fidelity: model is a function",  # AttributeError: 'function' object has no attribute 'parameters'
        "measure_fidelity: model is of another width",  # RuntimeError: mat1 and mat2 shapes cannot be multiplied (20x
        "measure_fidelity: x is None",  # AttributeError: 'NoneType' object has no attribute 'to'
        "measure_fidelity: x is a list",  # AttributeError: 'list' object has no attribute 'to'
        "measure_fidelity: x is without rows",  # IndexError: index 0 is out of bounds for dimension 0 with size 0
        "measure_fidelity: x is of another width",  # RuntimeError: mat1 and mat2 shapes cannot be multiplied (6x7 and
        "measure_fidelity: x is with NaN",  # accepted silently
        "measure_fidelity: x is complex",  # RuntimeError: mat1 and mat2 must have the same dtype, but got ComplexFloa
        "measure_fidelity: n_players is text",  # TypeError: n must be a whole number, got '3'
        "measure_fidelity: n_players is a bool",  # IndexError: index 1 is out of bounds for dimension 0 with size 1
        "measure_fidelity: n_players is zero",  # ValueError: n must be at least 1, got 0
        "measure_fidelity: n_players is another",  # RuntimeError: mat1 and mat2 shapes cannot be multiplied (20x11 an
        "measure_fidelity: output is unknown",  # KeyError: 'nonsense'
        "measure_fidelity: output is None",  # KeyError: None
        "measure_fidelity: output is a list",  # TypeError: unhashable type: 'list'
        "measure_fidelity: seed is None",  # RuntimeError: manual_seed expected a long, but got NoneType
        "measure_fidelity: seed is a bool",  # RuntimeError: manual_seed expected a long, but got bool
        "measure_fidelity: seed is negative",  # accepted silently
        "measure_fidelity: seed is too large",  # ValueError: Overflow when unpacking long long
        "measure_fidelity: seed is a generator of numpy",  # RuntimeError: manual_seed expected a long, but got numpy.
        "train_surrogate: x_valid is None",  # AttributeError: 'NoneType' object has no attribute 'to'
        "train_surrogate: x_valid is a list",  # AttributeError: 'list' object has no attribute 'to'
        "train_surrogate: x_valid is without rows",  # IndexError: index 0 is out of bounds for dimension 0 with size
        "train_surrogate: x_valid is of another width",  # RuntimeError: mat1 and mat2 shapes cannot be multiplied (6x
        "train_surrogate: x_valid is with NaN",  # accepted silently
        "train_surrogate: x_valid is complex",  # RuntimeError: mat1 and mat2 must have the same dtype, but got Comple
        "train_surrogate: budget is None",  # AttributeError: 'NoneType' object has no attribute 'steps'
        "train_surrogate: budget is a number",  # AttributeError: 'int' object has no attribute 'steps'
        "train_surrogate: recipe is a number",  # AttributeError: 'int' object has no attribute 'batch_size'
        "train_surrogate: recipe is text",  # AttributeError: 'str' object has no attribute 'batch_size'
        "train_surrogate: augment is a number",  # TypeError: 'int' object is not callable
        "train_surrogate: augment is text",  # TypeError: 'str' object is not callable
        "train_surrogate: augment is of another shape",  # accepted silently
        "train_surrogate: augment is of None",  # TypeError: 'NoneType' object is not subscriptable
        "train_surrogate: checkpoint is a number",  # AttributeError: 'int' object has no attribute 'parent'
        # src/fwshapley/valuation/learned/amortized.py
        # src/fwshapley/valuation/retraining.py
    }
)
