"""Exported explainers from ONNX files, run by onnxruntime."""

from __future__ import annotations

import json
import os
from typing import Any

from fwshapley._internal.checks import check_path, check_whole, shorten
from fwshapley._internal.onnx_facts import EXPLAINER, FACTS_KEY, FORMAT
from fwshapley.serving.exported_explainer import ExportedExplainer


def load_onnx(path: str | os.PathLike[str], *, n_threads: int | None = None) -> ExportedExplainer:
    """Load an explainer that `FeatureExplainer.to_onnx` or `fwshapley export` wrote; torch need not be installed.

    It needs `fwshapley[serve]`.

    Args:
        path: the file.
        n_threads: that the network uses; None is all cores for images, and one for tables, whose networks are small.

    Example:
        >>> x = np.random.default_rng(0).normal(size=(64, 3))
        >>> explainer = fw.FeatureExplainer(lambda rows: rows[:, 0] * rows[:, 1])
        >>> explainer = explainer.fit(x, budget=fw.Budget(steps=20), progress=False)
        >>> explainer.to_onnx("explainer.onnx")
        >>> fw.load_onnx("explainer.onnx").explain(x[:5], weights=fw.Beta(4, 1)).values.shape
        (5, 3, 1)
    """
    file = check_path("path", path)
    if n_threads is not None:
        check_whole("n_threads", n_threads)
    if not file.is_file():
        raise FileNotFoundError(f"{file} is missing: expected an ONNX file that fwshapley has written")
    session = _open_session(str(file), n_threads or 1)
    text = session.get_modelmeta().custom_metadata_map.get(FACTS_KEY)
    if text is None:
        raise ValueError(f"{file} was not written by fwshapley: its metadata has no {FACTS_KEY!r}")
    facts = json.loads(text)
    if facts["format"] != FORMAT:
        raise ValueError(f"{file} has format {facts['format']}; this version of fwshapley reads {FORMAT}")
    if facts["kind"] != EXPLAINER:
        raise ValueError(f"{file} contains a {facts['kind']}; load the file of its explainer")
    if n_threads is None and facts["schema"] is None:
        session = _open_session(str(file), 0)  # as many threads as there are cores
    return ExportedExplainer(facts, lambda names, feeds: list(session.run(names, feeds)))


def _open_session(path: str, n_threads: int) -> Any:  # noqa: ANN401 - onnxruntime has no types
    try:
        import onnxruntime  # noqa: PLC0415 - of an extra
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("onnxruntime is missing: install it with pip install 'fwshapley[serve]'") from error
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = n_threads
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # idle threads would burn other cores
    options.log_severity_level = 3
    try:
        return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # of onnxruntime's own kinds
        raise ValueError(f"{path} is not an ONNX file that can be run: {shorten(str(error))}") from error
