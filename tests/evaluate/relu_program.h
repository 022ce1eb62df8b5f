#pragma once

#include <string>

#include "base/json.h"

namespace planish::testing {

/// A program of one C++ function with this body, from one input of 64 × 128 floats to one output alike.
inline Json relu_program(const std::string& body) {
  Json program = {{"schema", "planish.program/1"},
                  {"target", "cpu"},
                  {"arch", "x86-64-v2"},
                  {"buffers",
                   {{{"role", "input"},
                     {"source", {{"kind", "user"}, {"index", 0}}},
                     {"dtype", "f32"},
                     {"shape", {64, 128}},
                     {"strides", {128, 1}}},
                    {{"role", "output"}, {"dtype", "f32"}, {"shape", {64, 128}}, {"strides", {128, 1}}}}},
                  {"kernels",
                   {{{"language", "cpp"},
                     {"entry", "k0"},
                     {"flags", Json::array()},
                     {"source", "extern \"C\" void k0(void** args) {\n" + body + "\n}\n"}}}},
                  {"steps",
                   {{{"kind", "launch"},
                     {"kernel", 0},
                     {"grid", {1, 1, 1}},
                     {"block", {1, 1, 1}},
                     {"cluster", {1, 1, 1}},
                     {"shared", 0},
                     {"args", {{{"buffer", 0}}, {{"buffer", 1}}}}}}},
                  {"outputs", {{{"buffer", 1}, {"kind", "user"}}}}};
  return program;
}

}  // namespace planish::testing
