"""Secrets of connectors are hidden in texts; missing packages name their extra."""

from __future__ import annotations

import pickle

import pytest

from flott._extras import require
from flott.common._secrets import Properties, without_secrets
from flott.errors import MissingExtraError


def test_properties_hide_secrets_in_their_text_and_keep_them():
    properties = Properties({"sasl.password": "hunter2", "bootstrap.servers": "a:9092"})
    assert "hunter2" not in repr(properties)
    assert "a:9092" in repr(properties)
    assert properties["sasl.password"] == "hunter2"
    assert pickle.loads(pickle.dumps(properties)) == properties
    assert properties.secrets() == ("hunter2",)


def test_texts_lose_known_secrets_and_what_looks_like_one():
    text = 'FATAL: hunter2 is wrong for postgresql://joe:tiger@db/x; sasl.jaas.config="... password=lion"'
    assert not {"hunter2", "tiger", "lion"} & set(without_secrets(text, "hunter2").replace('"', " ").split())
    hidden = without_secrets(text, "hunter2")
    assert "hunter2" not in hidden
    assert "tiger" not in hidden
    assert "lion" not in hidden


def test_a_missing_package_names_its_extra():
    with pytest.raises(MissingExtraError, match=r"pip install 'flott\[kafka\]'") as missing:
        require("no_such_client_library.submodule", extra="kafka")
    assert isinstance(missing.value, ImportError)
