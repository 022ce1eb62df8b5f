#pragma once

#include <string>

/// Documents that tests read and alter.
namespace planish::samples {

/// A planish.graph/1 with every kind of argument and output that there is.
inline const std::string graph_document = R"J({
  "schema": "planish.graph/1", "torch": "2.13.0",
  "values": [{"dtype": "f32", "shape": [4, 8], "strides": [8, 1], "device": "cpu"},
             {"dtype": "f32", "shape": [8], "strides": [1], "device": "cpu"},
             {"dtype": "complex64", "shape": [], "strides": [], "device": "cpu"},
             {"dtype": "f32", "shape": [4, 8], "strides": [8, 1], "device": "cpu"}],
  "inputs": [{"value": 1, "kind": "param", "name": "w"}, {"value": 0, "kind": "user", "index": 0, "name": "x"}],
  "nodes": [{"op": "aten.add.Tensor", "args": [{"name": "self", "value": 0}, {"name": "other", "value": 1}, {"name": "alpha", "int": 2}], "outs": [3]},
            {"op": "aten.many.default", "args": [{"name": "a", "values": [3, null]}, {"name": "b", "float": "0x1.8p+1"},
              {"name": "c", "float": "inf"}, {"name": "d", "bool": true}, {"name": "e", "str": "none"}, {"name": "f", "ints": [1, 2]},
              {"name": "g", "dtype": "bf16"}, {"name": "h", "none": true}], "outs": [2, null]}],
  "outputs": [{"value": 3, "kind": "user"}, {"kind": "scalar", "arg": {"int": 3}}, {"value": 3, "kind": "mutate_buffer", "target": "b", "versions": 0, "differentiable": false, "read": true},
              {"value": 3, "kind": "mutate_input", "target": 0}],
  "input_tree": "t", "output_tree": "u", "scalars": [{"index": 2, "arg": {"int": 3}}]
})J";

}  // namespace planish::samples
