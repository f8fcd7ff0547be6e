#!/usr/bin/env python3
"""Writes the seeds of the ONNX fuzz target (needs the Python package `onnx`; the tests do not).

    tests/data/make_onnx.py tests/fuzz_corpus/heddle_onnx_fuzz [MODEL.onnx...]

Small models made here, one per family of ops, and copies of the given models without their weights and
without the shapes they state.
"""
import os
import sys

import onnx
from onnx import TensorProto, helper


def ints(name, values, scalar=False):
    dims = [] if scalar else [len(values)]
    return helper.make_tensor(name, TensorProto.INT64, dims, values)


def floats(name, dims, value=0.5):
    count = 1
    for dim in dims:
        count *= dim
    return helper.make_tensor(name, TensorProto.FLOAT, dims, [value] * count)


def model(name, nodes, inputs, initializers, last, opset=18):
    nodes.append(helper.make_node("ReduceSum", [last], ["loss"], keepdims=0))
    inputs = [helper.make_tensor_value_info(n, t, s) for n, t, s in inputs]
    output = helper.make_tensor_value_info("loss", TensorProto.FLOAT, [])
    graph = helper.make_graph(nodes, name, inputs, [output], initializers)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    made.ir_version = 8
    return made


def node(op, inputs, outputs, **attributes):
    return helper.make_node(op, inputs.split(), outputs.split(), **attributes)


def models():
    x = [("x", TensorProto.FLOAT, [2, 3, 8, 8])]
    yield model("convolution", [
        node("Conv", "x w", "a", pads=[1, 1, 1, 1]),
        node("BatchNormalization", "a s s s s", "b"),
        node("MaxPool", "b", "c", kernel_shape=[2, 2], strides=[2, 2]),
        node("ConvTranspose", "c u", "d", strides=[2, 2]),
        node("GlobalAveragePool", "d", "e"),
    ], x, [floats("w", [4, 3, 3, 3]), floats("s", [4]), floats("u", [4, 2, 2, 2])], "e")
    yield model("movement", [
        node("Shape", "x", "shape"),
        node("Gather", "shape zero", "batch"),
        node("Unsqueeze", "batch zeros", "b1"),
        node("Concat", "b1 minus", "to", axis=0),
        node("Reshape", "x to", "r"),
        node("Slice", "r zeros ends ones", "s"),
        node("Split", "s", "p q", axis=1, num_outputs=2),
        node("Transpose", "p", "t", perm=[1, 0]),
        node("SplitToSequence", "t", "seq", axis=0),
        node("SequenceAt", "seq zero", "at"),
        node("Tile", "at reps", "u"),
        node("Pad", "u pads", "v"),
        node("Trilu", "v", "y"),
    ], x, [ints("zero", [0], True), ints("zeros", [0]), ints("minus", [-1]), ints("ends", [100]),
           ints("ones", [1]), ints("reps", [2, 2]), ints("pads", [0, 1, 1, 0])], "y")
    yield model("attention", [
        node("Gather", "emb ids", "e"),
        node("LayerNormalization", "e g g", "n"),
        node("MatMul", "n wq", "q"),
        node("Transpose", "q", "k", perm=[0, 2, 1]),
        node("MatMul", "q k", "s"),
        node("Add", "s mask", "m"),
        node("Softmax", "m", "p"),
        node("MatMul", "p q", "o"),
        node("Einsum", "o wq", "y", equation="bij,jk"),
        node("TopK", "y two", "z i"),
        node("CumSum", "z one", "c"),
    ], [("ids", TensorProto.INT64, [2, 4])],
        [floats("emb", [9, 8]), floats("g", [8]), floats("wq", [8, 8]), floats("mask", [1]),
         ints("two", [2]), ints("one", [1], True)], "c")
    yield model("constants", [
        node("Constant", "", "n", value_int=8),
        node("Range", "zero n one", "r"),
        node("Unsqueeze", "r ones", "c"),
        node("GreaterOrEqual", "c r", "mask"),
        node("Where", "mask f0 f1", "m"),
        node("ConstantOfShape", "eight", "z"),
        node("Add", "x m", "a"),
        node("Mul", "a z", "b"),
        node("Clip", "b f0 f1", "y"),
    ], x, [ints("zero", [0], True), ints("one", [1], True), ints("ones", [1]), ints("eight", [8, 8]),
           floats("f0", []), floats("f1", [], 2.0)], "y")
    yield model("old", [
        node("Unsqueeze", "x", "a", axes=[0]),
        node("Squeeze", "a", "b", axes=[0]),
        node("Softmax", "b", "c", axis=1),
        node("ReduceMean", "c", "d", axes=[2, 3], keepdims=0),
        node("Gemm", "d w", "y", transB=1, alpha=0.5),
    ], x, [floats("w", [5, 3])], "y", opset=11)


def stripped(path):
    made = onnx.load(path, load_external_data=False)
    del made.graph.value_info[:]
    made.graph.ClearField("doc_string")
    for n in made.graph.node:
        n.ClearField("doc_string")
    for tensor in made.graph.initializer:
        if len(tensor.raw_data) <= 64:
            continue
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        del tensor.external_data[:]
        entry = tensor.external_data.add()
        entry.key, entry.value = "location", "weights.bin"
        # Distinct places: equal ones would be one tensor.
        entry = tensor.external_data.add()
        entry.key, entry.value = "offset", str(len(tensor.name) + hash_of(tensor.name))
    return made


def hash_of(text):
    value = 0
    for c in text:
        value = (value * 131 + ord(c)) % 1000003
    return value * 64


def main():
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    for made in models():
        onnx.save(made, os.path.join(folder, made.graph.name + ".onnx"))
    for path in sys.argv[2:]:
        onnx.save(stripped(path), os.path.join(folder, os.path.basename(path)))


if __name__ == "__main__":
    main()
