#pragma once

// Include from .cpp files only (base/json.h). Parts of the evaluation document that other messages carry too.
#include "base/json.h"
#include "evaluate/api.h"

namespace planish {

Json case_to_json(const TestCase& test_case);
Result<TestCase> read_case(const Json& json, ErrorKind kind, const std::string& where);
Json memory_to_json(const std::vector<worker::MemoryCheck>& checks);
Result<std::vector<worker::MemoryCheck>> read_memory(const Json* json, ErrorKind kind, const std::string& where);
Json clocks_to_json(const Clocks& clocks);
Clocks read_clocks(const Json& json);
Json evaluation_to_json(const Evaluation& evaluation);
Result<Evaluation> read_evaluation(const Json& json);
std::map<std::string, std::string> read_text_map(const Json* json);

}  // namespace planish
