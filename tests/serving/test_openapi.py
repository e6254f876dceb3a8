"""The server conforms to its own OpenAPI description, whatever valid and invalid requests schemathesis thinks of."""

from __future__ import annotations

from typing import Any

import hypothesis
import schemathesis
from hypothesis import HealthCheck
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from serving_parts import Running

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]


SETTINGS = hypothesis.settings(
    max_examples=8, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)


def test_answers_are_as_described(server: Running) -> None:
    schema = schemathesis.openapi.from_url(f"{server.address}/openapi.json")
    operations: list[Any] = [result.ok() for result in schema.get_all_operations()]  # type: ignore[union-attr]
    for operation in operations:

        @SETTINGS
        @hypothesis.given(case=operation.as_strategy())
        def call(case: Any) -> None:  # noqa: ANN401 - of schemathesis
            case.path_parameters = dict.fromkeys(case.path_parameters or {}, "wines")
            case.call_and_validate(checks=CHECKS, timeout=20)

        call()
    assert len(operations) == 11
