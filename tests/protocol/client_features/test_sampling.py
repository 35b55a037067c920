"""Messages to the model of a client, and what becomes of its answer."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from mcp_types.methods import parse_server_request

from resource_server.errors import ResourceServerError
from resource_server.protocol.client_features.sampling import Sampling
from resource_server.protocol.revisions import HANDSHAKE, LATEST_HANDSHAKE
from resource_server.provider import MediaBlock, SamplingAnswer, SamplingMessage, TextBlock
from tests.cases import for_each

TEXT = {"type": "text", "text": "Paris"}
PICTURE = {"type": "image", "data": "iVBORw==", "mimeType": "image/png"}
SOUND = {"type": "audio", "data": "UklGRg==", "mimeType": "Audio/wav"}


def answered(content: object, **more: object) -> SamplingAnswer:
    data = {"role": "assistant", "model": "m", "content": content, **more}
    return Sampling("x", max_tokens=1).answer(msgspec.Raw(json.dumps(data).encode()))


@for_each("revision", HANDSHAKE)
def test_the_sdk_knows_every_parameter(revision: str) -> None:
    sampling = Sampling(
        [
            SamplingMessage(TextBlock("Hello")),
            SamplingMessage(MediaBlock(b"\x89PNG", "image/png"), role="assistant"),
        ],
        max_tokens=5,
        system="Be brief.",
        temperature=0.0,
        stop_sequences=("end",),
    )
    params: Any = json.loads(msgspec.json.encode(sampling.params(HANDSHAKE[revision])))
    parse_server_request("sampling/createMessage", revision, params)
    assert params == {
        "messages": [
            {"role": "user", "content": {"type": "text", "text": "Hello"}},
            {"role": "assistant", "content": PICTURE},
        ],
        "maxTokens": 5,
        "systemPrompt": "Be brief.",
        "temperature": 0.0,
        "stopSequences": ["end"],
    }


def test_options_that_are_not_given_are_left_out() -> None:
    assert list(Sampling("x", max_tokens=1).params(LATEST_HANDSHAKE)) == ["messages", "maxTokens"]


@for_each(("messages", "max_tokens"), [("x", 0), ("x", -1), ([], 1)])
def test_a_question_to_a_model_has_messages_and_tokens(messages: Any, max_tokens: int) -> None:
    with pytest.raises(ResourceServerError, match="a model needs one message"):
        Sampling(messages, max_tokens=max_tokens)


def test_an_answer_has_its_text_and_media() -> None:
    assert answered(TEXT) == SamplingAnswer(content=[TextBlock("Paris")], model="m")
    several = answered([TEXT, PICTURE, SOUND, TEXT], stopReason="endTurn", _meta={"x": 1})
    assert several.content == [
        TextBlock("Paris"),
        MediaBlock(b"\x89PNG", "image/png"),
        MediaBlock(b"RIFF", "Audio/wav"),
        TextBlock("Paris"),
    ]
    assert (several.text, several.stop_reason) == ("Paris\nParis", "endTurn")


def test_blocks_that_were_not_asked_for_are_left_out() -> None:
    tool = {"type": "tool_use", "id": "1", "name": "rm", "input": None}
    assert answered([tool, TEXT, {"type": "", "text": "x"}]).content == [TextBlock("Paris")]
    assert answered([]).text == ""


@for_each(
    "content",
    [
        None,
        "Paris",
        {},
        {"type": "text"},
        {**TEXT, "text": ["Paris"]},
        [TEXT, {"type": "text"}],
        {**PICTURE, "data": "no base64"},
        {**PICTURE, "data": "\u00e4"},
        {**PICTURE, "mimeType": "text/html"},
        {**PICTURE, "mimeType": "audio/wav"},
        {"type": "audio", "data": "AA=="},
    ],
)
def test_an_answer_of_another_shape_is_refused(content: object) -> None:
    with pytest.raises(msgspec.ValidationError):
        answered(content)
