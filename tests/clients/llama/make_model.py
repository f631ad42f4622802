#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""make_model.py FILE: a small model for llama.cpp: Llama's architecture, random weights of a fixed
seed.

The file is GGUF version 3: header, metadata, descriptions of the tensors, and their data, each
aligned to 32 bytes. Its words are single bytes, so that every text can be written.
"""
import array
import random
import struct
import sys

WIDTH, HEADS, LAYERS, HIDDEN, CONTEXT = 128, 4, 2, 256, 256
U32, F32, STRING, ARRAY, I32 = 4, 6, 8, 9, 5
TENSOR_F32, TENSOR_F16 = 0, 1
ALIGN = 32

# Words of llama.cpp's SentencePiece vocabulary: unknown, begin, end, and one for each byte.
UNKNOWN, CONTROL, BYTE = 2, 3, 6
words = [("<unk>", UNKNOWN), ("<s>", CONTROL), ("</s>", CONTROL)]
words += [(f"<0x{n:02X}>", BYTE) for n in range(256)]


def string(text):
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def value(kind, item):
    if kind == STRING:
        return string(item)
    return struct.pack({U32: "<I", F32: "<f", I32: "<i"}[kind], item)


def pair(key, kind, item):
    return string(key) + struct.pack("<I", kind) + value(kind, item)


def pairs(key, kind, items):
    head = string(key) + struct.pack("<IIQ", ARRAY, kind, len(items))
    return head + b"".join(value(kind, item) for item in items)


metadata = [
    pair("general.architecture", STRING, "llama"),
    pair("general.name", STRING, "random"),
    pair("llama.context_length", U32, CONTEXT),
    pair("llama.embedding_length", U32, WIDTH),
    pair("llama.block_count", U32, LAYERS),
    pair("llama.feed_forward_length", U32, HIDDEN),
    pair("llama.attention.head_count", U32, HEADS),
    pair("llama.attention.head_count_kv", U32, HEADS),
    pair("llama.attention.layer_norm_rms_epsilon", F32, 1e-5),
    pair("llama.rope.dimension_count", U32, WIDTH // HEADS),
    pair("llama.vocab_size", U32, len(words)),
    pair("tokenizer.ggml.model", STRING, "llama"),
    pairs("tokenizer.ggml.tokens", STRING, [word for word, _ in words]),
    pairs("tokenizer.ggml.scores", F32, [0.0] * len(words)),
    pairs("tokenizer.ggml.token_type", I32, [kind for _, kind in words]),
    pair("tokenizer.ggml.bos_token_id", U32, 1),
    pair("tokenizer.ggml.eos_token_id", U32, 2),
    pair("tokenizer.ggml.unknown_token_id", U32, 0),
]

chance = random.Random(20240601)


def matrix(rows, columns, scale=1.0):
    """A shape in ggml's order: the length of a row first. Sums of such products keep the size of
    their terms."""
    spread = scale / rows**0.5
    data = array.array("f", (chance.gauss(0, spread) for _ in range(rows * columns)))
    return (rows, columns), TENSOR_F16, struct.pack(f"<{len(data)}e", *data)


def vector(length):
    return (length,), TENSOR_F32, struct.pack(f"<{length}f", *[1.0] * length)


tensors = {"token_embd.weight": matrix(WIDTH, len(words), 8)}
for n in range(LAYERS):
    block = f"blk.{n}."
    tensors[block + "attn_norm.weight"] = vector(WIDTH)
    for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
        tensors[block + name + ".weight"] = matrix(WIDTH, WIDTH, 2)
    tensors[block + "ffn_norm.weight"] = vector(WIDTH)
    tensors[block + "ffn_gate.weight"] = matrix(WIDTH, HIDDEN, 2)
    tensors[block + "ffn_up.weight"] = matrix(WIDTH, HIDDEN, 2)
    tensors[block + "ffn_down.weight"] = matrix(HIDDEN, WIDTH, 2)
tensors["output_norm.weight"] = vector(WIDTH)
# Far apart, so that the likeliest word does not depend on the last digit.
tensors["output.weight"] = matrix(WIDTH, len(words), 8)


def aligned(data):
    return data + bytes(-len(data) % ALIGN)


descriptions, body = b"", b""
for name, (shape, kind, data) in tensors.items():
    descriptions += string(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, len(body))
    body += aligned(data)
head = struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), len(metadata)) + b"".join(metadata) + descriptions
with open(sys.argv[1], "wb") as file:
    file.write(aligned(head) + body)
