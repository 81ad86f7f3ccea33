"""HMMs on the Hugging Face hub, with a card that says how they were made."""

from __future__ import annotations

import json
import logging
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pcgcd.basics.files import write_text
from pcgcd.basics.packages import package
from pcgcd.errors import CheckpointError, InvalidParameterError
from pcgcd.hmm.files.checkpoints import CheckpointInfo, load_hmm, read_info, save_hmm
from pcgcd.hmm.model import HiddenMarkovModel

_LOGGER = logging.getLogger(__name__)
_LONGEST = 400


def push_to_hub(
    source: HiddenMarkovModel | str | os.PathLike[str],
    repo_id: str,
    *,
    private: bool | None = None,
    token: str | None = None,
    commit_message: str = "Upload an HMM of pcgcd",
    **options: Any,
) -> str:
    """Upload a model to the hub, as ``HMM.from_pretrained(repo_id)`` reads it.

    Args:
        source: The model; or the folder of one, such as ``pcgcd distill`` makes, whose facts then
            go into the card.
        repo_id: ``owner/name``; the repository is made if it does not exist.
        private: Whether a new repository is private; by default what the account says.
        token: Of the hub; by default the one that was used to log in.
        commit_message: The message of the commit.
        options: For :func:`save_hmm` (``emission_dtype``, ``vocabulary``, ``facts``), where the
            model is not in a folder.

    Returns:
        The address of the commit.

    Raises:
        CheckpointError: There is no model in the folder, or the hub refuses.
    """
    if repo_id.count("/") != 1:
        raise InvalidParameterError(f"repo_id must be of the form owner/name, but is {repo_id!r}")
    hub = package("huggingface_hub", "uploading to the hub")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "model"
        if isinstance(source, HiddenMarkovModel):
            save_hmm(source, folder, **options)
        elif options:
            raise InvalidParameterError(
                f"a model in a folder is uploaded as it is; leave out {', '.join(options)}"
            )
        else:
            info = read_info(source)
            stored = info.emission_dtype
            save_hmm(load_hmm(source), folder, emission_dtype=stored, facts=info.facts)
            _keep_vocabulary(folder, info)
        write_text(folder / "README.md", model_card(read_info(folder), repo_id))
        _LOGGER.info("uploading %s", repo_id)
        try:
            api = hub.HfApi(token=token)
            api.create_repo(repo_id, private=private, exist_ok=True)
            done = api.upload_folder(
                repo_id=repo_id, folder_path=folder, commit_message=commit_message
            )
        except Exception as error:  # the hub's client raises errors of many libraries
            raise CheckpointError(f"{repo_id!r} could not be uploaded: {error}") from error
    return str(getattr(done, "commit_url", done))


def _keep_vocabulary(folder: Path, info: CheckpointInfo) -> None:
    """Say again which vocabulary a model is for, which is known by its fingerprint alone."""
    path = folder / "config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    config |= {"vocabulary": info.vocabulary, "eos_ids": list(info.eos_ids)}
    write_text(path, json.dumps(config, indent=2) + "\n")


def model_card(info: CheckpointInfo, repo_id: str) -> str:
    """Return the card of a model: what it is, how to use it, the facts of its training.

    Args:
        info: What the model's folder says.
        repo_id: Where it is.
    """
    lines = [
        *("---", "library_name: pcgcd", "tags:", "- pcgcd", "- hmm", "- constrained-generation"),
        *("---", "", f"# {repo_id.partition('/')[2]}", ""),
        f"A hidden Markov model ({info.kind}) with {info.num_hidden:,} hidden states over "
        f"{info.vocab_size:,} tokens, distilled from a language model. It guides constrained "
        "generation with pcgcd (P-GCD).",
        *("", "```python", "import pcgcd", "from pcgcd.hmm import load_hmm", ""),
        f'hmm = load_hmm("{repo_id}")',
        'result = pcgcd.generate("name of the language model", ..., hmm=hmm)',
        *("```", "", "## Facts", "", "| | |", "| --- | --- |"),
        f"| emissions stored as | {info.emission_dtype} |",
        f"| fingerprint of the vocabulary | {info.vocabulary or 'unknown'} |",
        *(f"| {name} | {value} |" for name, value in _rows(info.facts)),
    ]
    return "\n".join(lines) + "\n"


def _rows(facts: Mapping[str, Any], before: str = "") -> list[tuple[str, str]]:
    """Facts, with those inside others after the name of these."""
    rows: list[tuple[str, str]] = []
    for key, value in facts.items():
        name = f"{before}{key}".replace("_", " ").replace("|", "\\|")
        if isinstance(value, Mapping):
            rows += _rows(value, f"{name}: ")
            continue
        text = value if isinstance(value, str) else json.dumps(value)
        rows.append((name, " ".join(text[:_LONGEST].split()).replace("|", "\\|")))
    return rows
