"""The OpenAPI document, made of the same models that check the requests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import TypeAdapter
from starlette.responses import JSONResponse

from engine.service.http.endpoint import Answer, Asked, Endpoint


def endpoint(others: Sequence[Endpoint]) -> Endpoint:
    """GET /openapi.json, which describes the other endpoints."""
    document: dict[str, Any] = {}

    async def show(_: Asked) -> Answer:
        if not document:  # made when first asked for, for few do
            document.update(describe(others))
        return JSONResponse(document)

    return Endpoint("GET", "/openapi.json", "This document", show)


def describe(endpoints: Sequence[Endpoint]) -> dict[str, Any]:
    """The document for these endpoints. Answers are named, not described: each API's own documents do."""
    inputs = [(one.path, "validation", one.body) for one in endpoints if one.body is not None]
    by_path, schemas = TypeAdapter.json_schemas(inputs, ref_template="#/components/schemas/{model}")  # type: ignore[arg-type]
    paths: dict[str, dict[str, Any]] = {}
    for one in endpoints:
        operation: dict[str, Any] = {
            "summary": one.summary,
            "responses": {
                "200": {"description": "The answer"},
                "4XX": {"description": "What is wrong with the request"},
            },
        }
        if one.body is not None:
            schema = by_path[(one.path, "validation")]
            operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}
        path = one.path.replace(":path}", "}")
        if "{" in path:
            name = path.partition("{")[2].partition("}")[0]
            operation["parameters"] = [
                {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
            ]
        if one.path == "/health":
            operation["security"] = []
        paths.setdefault(path, {})[one.method.lower()] = operation
    return {
        "openapi": "3.1.0",
        "info": {"title": "Hearth", "version": "1"},
        "paths": paths,
        "security": [{"bearer": []}],
        "components": {
            "schemas": schemas.get("$defs", {}),
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        },
    }
