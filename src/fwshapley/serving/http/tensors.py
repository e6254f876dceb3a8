"""Tensors of the Open Inference Protocol, as JSON or as bytes after it (the binary tensor extension)."""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fwshapley.serving.http.json_messages import read_json, write_json
from fwshapley.serving.request_errors import MALFORMED, RequestError

BYTES_TYPE = "application/octet-stream"
HEADER = "inference-header-content-length"
"""Header with the length of the JSON, if bytes of tensors follow it."""

DTYPES: Mapping[str, str] = {
    "BOOL": "bool",
    **{f"{kind.upper()}{bits}": f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)},
    "FP16": "float16",
    "FP32": "float32",
    "FP64": "float64",
}
BYTES = "BYTES"
NAMES: Mapping[str, str] = {dtype: name for name, dtype in DTYPES.items()}


class InferRequest(NamedTuple):
    """A request of inference.

    Attributes:
        id: of the client; None if it gave none.
        tensors: inputs by name.
        parameters: of the request, without those of the protocol.
        outputs: names of outputs, and whether each is wanted as bytes; None for all, as the request says.
        binary: whether outputs are bytes unless they say otherwise.
    """

    id: str | None
    tensors: dict[str, NDArray[Any]]
    parameters: dict[str, Any]
    outputs: dict[str, bool] | None
    binary: bool


def read_infer_request(body: bytes, header_length: str | None) -> InferRequest:
    """Return the tensors and parameters of a request; raise a RequestError that names what is wrong.

    Args:
        body: JSON, and bytes of tensors after it.
        header_length: length of the JSON, if bytes follow.
    """
    length = len(body)
    if header_length is not None:
        if not header_length.isdecimal() or not 0 < int(header_length) <= len(body):
            raise RequestError("it must be the length of the JSON in bytes", HEADER, status=MALFORMED)
        length = int(header_length)
    request = read_json(body[:length])
    if not isinstance(request, dict):
        raise RequestError("the body must be an object", status=MALFORMED)
    given = request.get("id")
    if given is not None and not isinstance(given, str):
        raise RequestError("id must be a text", "id")
    parameters = request.get("parameters", {})
    if not isinstance(parameters, dict):
        raise RequestError("parameters must be an object", "parameters")
    parameters = dict(parameters)
    binary = parameters.pop("binary_data_output", False) is True
    return InferRequest(
        given,
        _read_inputs(request.get("inputs"), memoryview(body)[length:]),
        parameters,
        _read_outputs_wanted(request.get("outputs"), binary=binary),
        binary,
    )


def write_infer_response(
    facts: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]], binary: Mapping[str, bool]
) -> tuple[bytes, int | None]:
    """Return a body, and the length of its JSON if bytes follow.

    Args:
        facts: of the response, besides its outputs.
        tensors: outputs by name.
        binary: which of them are written as bytes.
    """
    outputs, blobs = [], []
    for name, tensor in tensors.items():
        output: dict[str, Any] = {"name": name, "datatype": NAMES[str(tensor.dtype)], "shape": list(tensor.shape)}
        if binary.get(name):
            blob = np.ascontiguousarray(tensor).tobytes()
            output["parameters"] = {"binary_data_size": len(blob)}
            blobs.append(blob)
        else:
            output["data"] = tensor.ravel()
        outputs.append(output)
    text = write_json({**facts, "outputs": outputs})
    return b"".join([text, *blobs]), len(text) if blobs else None


def _read_inputs(inputs: object, blob: memoryview) -> dict[str, NDArray[Any]]:
    if not isinstance(inputs, list) or not inputs:
        raise RequestError("inputs must be a list of tensors", "inputs")
    tensors: dict[str, NDArray[Any]] = {}
    for place, tensor in enumerate(inputs):
        field = f"inputs[{place}]"
        if not isinstance(tensor, dict) or not isinstance(tensor.get("name"), str):
            raise RequestError("a tensor must be an object with a name", field)
        if tensor["name"] in tensors:
            raise RequestError("two tensors have this name", f"{field}.name")
        shape = _read_shape(tensor.get("shape"), f"{field}.shape")
        options = tensor.get("parameters", {})
        size = options.get("binary_data_size") if isinstance(options, dict) else None
        if size is None:
            tensors[tensor["name"]] = _from_json(tensor, shape, field)
            continue
        if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size <= len(blob):
            raise RequestError("there are not as many bytes after the JSON", f"{field}.parameters.binary_data_size")
        tensors[tensor["name"]] = _from_bytes(tensor.get("datatype"), shape, blob[:size], field)
        blob = blob[size:]
    if len(blob):
        raise RequestError(f"{len(blob):,} bytes after the JSON belong to no tensor", "inputs")
    return tensors


def _read_shape(shape: object, field: str) -> tuple[int, ...]:
    is_list = isinstance(shape, list) and 0 < len(shape) <= 8  # noqa: PLR2004 - axes
    if not isinstance(shape, list) or not is_list or not all(type(size) is int and 0 <= size < 2**31 for size in shape):
        raise RequestError("shape must be a list of 1 to 8 sizes", field)
    return tuple(shape)


def _from_json(tensor: Mapping[str, Any], shape: tuple[int, ...], field: str) -> NDArray[Any]:
    kind, data = tensor.get("datatype"), tensor.get("data")
    if kind != BYTES and kind not in DTYPES:
        raise RequestError(f"datatype must be one of {', '.join([*DTYPES, BYTES])}", f"{field}.datatype")
    if not isinstance(data, list):
        raise RequestError("data must be a list, or bytes after the JSON", f"{field}.data")
    try:
        array = np.array(data, dtype=object if kind == BYTES else None)
        with np.errstate(over="ignore", invalid="ignore"):  # infinite numbers are refused later
            is_plain = array.dtype.kind in "iufb"
            array = (array.astype(DTYPES[str(kind)]) if is_plain and kind != BYTES else array).reshape(shape)
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        raise RequestError(f"data must have shape {shape}", f"{field}.data") from error
    if kind == BYTES and not all(isinstance(text, str) for text in array.ravel()):
        raise RequestError("BYTES must be texts", f"{field}.data")
    if kind != BYTES and not is_plain:
        raise RequestError("data must contain numbers alone", f"{field}.data")
    return array


def _from_bytes(kind: object, shape: tuple[int, ...], blob: memoryview, field: str) -> NDArray[Any]:
    count = math.prod(shape)
    if kind == BYTES:
        texts = _split_texts(bytes(blob), field)
        if len(texts) != count:
            raise RequestError(f"expected {count:,} texts for shape {shape}, got {len(texts):,}", field)
        return np.array(texts, dtype=object).reshape(shape)
    if kind not in DTYPES:
        raise RequestError(f"datatype must be one of {', '.join([*DTYPES, BYTES])}", f"{field}.datatype")
    dtype = np.dtype(DTYPES[str(kind)])
    if len(blob) != count * dtype.itemsize:
        raise RequestError(f"expected {count * dtype.itemsize:,} bytes for shape {shape}, got {len(blob):,}", field)
    return np.frombuffer(blob, dtype).reshape(shape)


def _split_texts(blob: bytes, field: str) -> list[str]:
    """Return texts, each of which comes after its length in four bytes."""
    texts, place = [], 0
    while place < len(blob):
        if place + 4 > len(blob):
            raise RequestError("the bytes end within the length of a text", field)
        (length,) = struct.unpack_from("<I", blob, place)
        place += 4
        if place + length > len(blob):
            raise RequestError("the bytes end within a text", field)
        texts.append(blob[place : place + length].decode("utf-8", "replace"))
        place += length
    return texts


def _read_outputs_wanted(outputs: object, *, binary: bool) -> dict[str, bool] | None:
    """Return the outputs that a request names, and whether each is wanted as bytes."""
    if outputs is None:
        return None
    if not isinstance(outputs, list):
        raise RequestError("outputs must be a list", "outputs")
    wanted = {}
    for place, output in enumerate(outputs):
        if not isinstance(output, dict) or not isinstance(output.get("name"), str):
            raise RequestError("an output must be an object with a name", f"outputs[{place}]")
        options = output.get("parameters", {})
        flag = options.get("binary_data", binary) if isinstance(options, dict) else None
        if not isinstance(flag, bool):
            raise RequestError("binary_data must be true or false", f"outputs[{place}].parameters")
        wanted[output["name"]] = flag
    return wanted or None


def select_outputs(tensors: Mapping[str, NDArray[Any]], wanted: Sequence[str] | None) -> dict[str, NDArray[Any]]:
    """Return the tensors that a request names; raise a RequestError that names one that there is not."""
    if wanted is None:
        return dict(tensors)
    for place, name in enumerate(wanted):
        if name not in tensors:
            raise RequestError(f"there is no such output; there are {', '.join(tensors)}", f"outputs[{place}].name")
    return {name: tensors[name] for name in wanted}
