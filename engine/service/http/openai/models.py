"""GET /v1/models and /v1/models/{id}."""

from __future__ import annotations

from starlette.responses import JSONResponse, Response

from engine.service.http.endpoint import Asked, Endpoint
from engine.service.http.service import Service
from engine.service.served import ServedModel


def endpoints(service: Service) -> list[Endpoint]:
    async def list_models(_: Asked) -> Response:
        models = [_described(model) for model in await service.engine.models()]
        return JSONResponse({"object": "list", "data": models})

    async def get_model(asked: Asked) -> Response:
        return JSONResponse(_described(await service.model(asked.path["id"])))

    return [
        Endpoint("GET", "/v1/models", "The models that requests may name", list_models),
        Endpoint("GET", "/v1/models/{id:path}", "One model, by name or alias", get_model),
    ]


def _described(model: ServedModel) -> dict[str, object]:
    return {"id": model.name, "object": "model", "created": model.created, "owned_by": "hearth"}
