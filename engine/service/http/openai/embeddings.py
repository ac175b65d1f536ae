"""POST /v1/embeddings."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, TypeAdapter
from starlette.responses import Response

from engine.generation.embedding import Embeddings
from engine.service.http.endpoint import Answer, Asked, Endpoint
from engine.service.http.fields import Ignored, Name, Strict, TokenId, Unsupported
from engine.service.http.problems import BadField
from engine.service.http.service import Service

Text = Annotated[str, Field(min_length=1)]
MAX_TEXTS = 2048
"""As in OpenAI's API."""


class EmbeddingsBody(Strict):
    model: Name
    input: Text | Annotated[list[Text], Field(min_length=1)] | list[TokenId] | list[list[TokenId]]
    encoding_format: Literal["float", "base64"] | None = None
    dimensions: Unsupported = None
    user: Ignored = None

    def texts(self) -> list[str]:
        """Raises BadField for too many, and for token ids: they are another tokenizer's."""
        given = [self.input] if isinstance(self.input, str) else self.input
        if len(given) > MAX_TEXTS:
            raise BadField("input", f"It has {len(given)} entries; one call may have {MAX_TEXTS}.")
        texts = [text for text in given if isinstance(text, str)]
        if len(texts) != len(given) or not texts:
            raise BadField("input", "Token ids are not supported; send text.")
        return texts


def endpoints(service: Service) -> list[Endpoint]:
    async def embed(asked: Asked) -> Answer:
        body: EmbeddingsBody = asked.body
        model = (await service.model(body.model)).name
        made = await service.engine.embed(body.texts(), model)
        # Millions of numbers as text take seconds, which other requests must not wait for.
        answer = await asyncio.to_thread(_answer, made, model, body.encoding_format == "base64")
        return Response(answer, media_type="application/json")

    return [Endpoint("POST", "/v1/embeddings", "Vectors of texts", embed, TypeAdapter(EmbeddingsBody))]


def _answer(made: Embeddings, model: str, as_base64: bool) -> str:
    """JSON, written vector by vector, for the writer in C lets no other thread run meanwhile."""
    data = ",".join(
        json.dumps(
            {
                "object": "embedding",
                "index": index,
                "embedding": _base64(vector) if as_base64 else vector.tolist(),
            }
        )
        for index, vector in enumerate(made.vectors)
    )
    usage = {"prompt_tokens": made.tokens, "total_tokens": made.tokens}
    rest = json.dumps({"model": model, "usage": usage})
    return f'{{"object": "list", "data": [{data}], {rest[1:]}'


def _base64(vector: NDArray[np.float32]) -> str:
    """Little-endian single floats, as OpenAI's clients read them."""
    return base64.b64encode(vector.astype("<f4").tobytes()).decode("ascii")
