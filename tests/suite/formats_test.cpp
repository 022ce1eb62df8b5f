#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>

#include "base/file.h"
#include "base/json.h"
#include "suite/formats/imported.h"
#include "suite/formats/python_text.h"
#include "suite/formats/results.h"

using namespace planish;
using namespace planish::suite;
using namespace planish::suite::formats;

namespace {

class Collection {
 public:
  Collection() : root_(*TempDir::create("planish-formats-")) {}
  const Collection& add(const std::string& file, const std::string& text) const {
    REQUIRE(write_file(root_.path() / file, text));
    return *this;
  }
  std::filesystem::path path(const std::string& file = "") const { return root_.path() / file; }

 private:
  TempDir root_;
};

bool has(const std::string& text, const std::string& what) {
  return text.find(what) != std::string::npos;
}

constexpr const char* definition =
    R"({"name":"scale_h64","op_type":"x","axes":{"batch":{"type":"var"},"hidden":{"type":"const","value":64}},
"inputs":{"x":{"shape":["batch","hidden"],"dtype":"bfloat16"},"eps":{"shape":null,"dtype":"float32"}},
"outputs":{"y":{"shape":["batch","hidden"],"dtype":"bfloat16"}},"reference":"def run(x, eps):\n    return x * eps\n"})";
constexpr const char* workload =
    R"({"definition":"scale_h64","solution":null,"workload":{"uuid":"w1","axes":{"batch":4},"inputs":{"x":{"type":"random"},"eps":{"type":"scalar","value":0.5}}},"evaluation":null})";

std::string solution(const std::string& language, const std::string& entry) {
  return R"({"name":"mine","definition":"scale_h64","author":"me","spec":{"language":")" + language +
         R"(","entry_point":")" + entry +
         R"("},"sources":[{"path":"main.py","content":"def run(x, eps, y):\n    y.copy_(x * eps)\n"}]})";
}

}  // namespace

TEST_CASE("texts of others are carried as Python's own literals") {
  CHECK(python_string("a\"b\n\\") == R"("a\"b\n\\")");
  CHECK(python_literal(R"({"a":[1,2.5,true,null,"x"]})") == R"({"a": [1, 2.5, True, None, "x"]})");
  CHECK(file_name("../_a b/c") == "a_b_c");
}

TEST_CASE("a task of GPU MODE: one task a spec, the submission as a solution") {
  const Collection c;
  c.add("vectoradd/task.yml",
        "lang: py\nfiles:\n  - {name: submission.py, source: \"@SUBMISSION@\"}\n  - {name: reference.py, source: "
        "reference.py}\n"
        "  - {name: eval.py, source: ../eval.py}\nconfig:\n  main: eval.py\ntests:\n  - {size: 128, seed: 5, mode: "
        "fast}\n"
        "benchmarks:\n  - {size: 1024, seed: 6}\n")
      .add("vectoradd/reference.py", "def ref_kernel(data): ...\n")
      .add("vectoradd/submission.py", "def custom_kernel(data): ...\n");
  CHECK(format_of(c.path()) == "gpu-mode");
  const auto found = import_gpu_mode(c.path());
  REQUIRE(found);
  REQUIRE(found->tasks.size() == 2);
  CHECK(found->tasks[0].name == "vectoradd-test-0");
  CHECK(has(found->tasks[0].text, R"(_SPEC = {"mode": "fast", "size": 128})"));
  REQUIRE(found->solutions.size() == 2);
  CHECK(found->solutions[1].task == "vectoradd-benchmark-0");
  CHECK(found->solutions[0].author == "submission");
  CHECK_FALSE(has(found->solutions[0].text, "ref_kernel"));

  // A task may be anybody's: what it names elsewhere is not read into the task that is made of it.
  c.add("secret.py", "TOKEN = 1\n");
  c.add("secret.txt", "a key\n");
  c.add("vectoradd/elsewhere.py", "");
  std::filesystem::remove(c.path("vectoradd/elsewhere.py"));
  std::filesystem::create_symlink("/etc/passwd", c.path("vectoradd/elsewhere.py"));
  for (const char* source : {"../../etc/passwd", "/etc/passwd", "../secret.txt", "elsewhere.py", "../../secret.py"}) {
    c.add("vectoradd/task.yml",
          fmt::format("files: [{{name: reference.py, source: {}}}]\ntests: [{{size: 1}}]\n", source));
    CHECK_FALSE(import_gpu_mode(c.path("vectoradd")).has_value());
  }
  c.add("vectoradd/task.yml", "files: [{name: reference.py, source: ../secret.py}]\ntests: [{size: 1}]\n");
  CHECK(import_gpu_mode(c.path("vectoradd")).has_value());  // what tasks share lies beside them
  c.add("vectoradd/task.yml", "files: [\n");
  CHECK(import_gpu_mode(c.path("vectoradd")).error().kind.name() == "bad_task");
  CHECK(import_gpu_mode(c.path()).error().kind.name() == "no_tasks");
  c.add("vectoradd/task.yml", "lang: cu\ntests: [{size: 1}]\n");
  CHECK(import_gpu_mode(c.path("vectoradd")).error().kind.name() == "unsupported");
  c.add("vectoradd/task.yml", "files: []\ntests: []\n");
  CHECK(has(import_gpu_mode(c.path("vectoradd")).error().message, "neither tests nor benchmarks"));
  c.add("vectoradd/task.yml", "files: []\ntests: [{size: 1}]\n");
  CHECK(has(import_gpu_mode(c.path("vectoradd")).error().message, "no reference.py"));
  c.add("vectoradd/task.yml", "files: []\ntests: [{size: [1, 2]}]\n");
  CHECK(has(import_gpu_mode(c.path("vectoradd")).error().message, "plain values"));
}

TEST_CASE("FlashInfer-Bench: a task a workload, and its solutions") {
  const Collection c;
  c.add("definitions/x/d.json", definition).add("workloads/x/w.jsonl", std::string(workload) + "\n\nno JSON\n");
  c.add("solutions/s.json", solution("triton", "main.py::run"))
      .add("solutions/t.json", solution("cuda", "main.cu::run"));
  c.add("solutions/u.json", solution("python", "other.py::run")).add("solutions/v.json", "[]");
  c.add("solutions/w.json", solution("python", "main.py::run; import os"));
  c.add("definitions/broken.json", R"({"name": "broken"})");
  CHECK(format_of(c.path()) == "flashinfer-bench");
  const auto found = import_flashinfer(c.path());
  REQUIRE(found);
  REQUIRE(found->tasks.size() == 1);
  CHECK(found->tasks[0].name == "scale_h64-w1");
  CHECK(has(found->tasks[0].text, "_random([4, 64], torch.bfloat16),\n        0.5,"));
  REQUIRE(found->solutions.size() == 1);
  CHECK(has(found->solutions[0].text, "_run(*inputs, *outputs)"));
  CHECK(found->left_out.size() == 6);
  const Collection empty;
  CHECK(import_flashinfer(empty.path()).error().kind.name() == "no_tasks");
}

TEST_CASE("BackendBench: a task a traced call, and nothing but values in it") {
  const Collection c;
  c.add("traces.txt",
        "Operator: aten.add.Tensor\ncnt: 3, ((T([4, 8], f16), T([8], f16)), {'alpha': 1e-3})\n"
        "cnt: 1, ((T([4], f32), __import__('os')), {})\ncnt: 1, ((T([4, f32),), {})\ncnt: 1, ((f32(4),), {})\n"
        "Operator: os.system\ncnt: 1, ((1,), {})\nwhat\nOperator: aten.relu.default\ncnt: 1, ((T([4], f32),), {})\n");
  c.add("ops/add__Tensor/add__Tensor_implementation_v2.py", "no\n");
  c.add("ops/add__Tensor/add__Tensor_implementation_v1.py",
        "def add__Tensor_kernel_impl(a, b, alpha=1): return a + b\n");
  c.add("ops/relu__default/relu__default_implementation_v1.py", "def other(): ...\n");
  const auto found = import_backendbench(c.path("traces.txt"), c.path("ops"));
  REQUIRE(found);
  REQUIRE(found->tasks.size() == 2);
  CHECK(found->tasks[0].name == "add__Tensor-0");
  CHECK(has(found->tasks[0].text, "torch.ops.aten.add.Tensor(*args, **kwargs)"));
  CHECK(has(found->tasks[0].text, "args, kwargs = ((T([4, 8], f16), T([8], f16)), {'alpha': 1e-3})"));
  CHECK(found->solutions.size() == 1);
  CHECK(found->left_out.size() == 6);
  CHECK(std::ranges::any_of(found->left_out,
                            [](const std::string& why) { return has(why, "'__import__' is no value"); }));
  c.add("traces.txt", "nothing\n");
  CHECK(import_backendbench(c.path("traces.txt"), {}).error().kind.name() == "no_tasks");
  CHECK(import_backendbench(c.path("gone.txt"), {}).error().kind.name() == "no_such_file");
}

TEST_CASE("TritonBench: a task for each call that a file's test makes") {
  const Collection c;
  const std::string upper = "import torch\n\ndef twice(x):\n    return x * 2\n\ndef helper(x):\n    return x\n";
  const std::string test =
      "def test_twice():\n    results = {}\n    results['a'] = twice(torch.ones(2))\n    results['b'] = twice "
      "(torch.ones(3))\n    not_twice(1)\n    return results\n";
  c.add("files/twice.py", upper + std::string(146, '#') + "\n" + test).add("files/none.py", upper);
  c.add("files/untested.py", upper + std::string(146, '#') + "\nx = 1\n");
  c.add("p.jsonl",
        dump_json({{"label", upper + "\n"}, {"predict", "Here:\n```python\ndef twice(x):\n    return x + x\n```\n"}}) +
            "\n{\"predict\": 3}\n" + dump_json({{"label", "other"}, {"predict", "x"}}) + "\n");
  const auto found = import_tritonbench(c.path("files"), c.path("p.jsonl"));
  REQUIRE(found);
  REQUIRE(found->tasks.size() == 2);
  CHECK(found->tasks[1].name == "twice-twice-1");
  REQUIRE(found->solutions.size() == 2);
  CHECK(has(found->solutions[0].text, "return x + x"));
  CHECK_FALSE(has(found->solutions[0].text, "Here"));
  CHECK(found->left_out.size() == 4);
  const Collection empty;
  CHECK(import_tritonbench(empty.path(), {}).error().kind.name() == "no_tasks");
}

TEST_CASE(
    "an operator of Atrex-Bench: one task a shape, in folders, below data, or alone; what is no shape is left out") {
  const Collection c;
  const auto add = [&](const std::string& folder, const std::string& shapes) {
    c.add(folder + "/reference.py", "class Model: pass\n").add(folder + "/input.py", "x = 1\n");
    c.add(folder + "/shapes.json", shapes);
  };
  add("data/norm", R"({"0": {"init_kwargs": {"eps": 0.5}, "input_kwargs": {"shape": [1, 2]}},
                       "b": {"init_kwargs": null, "input_kwargs": {"shape": [3]}}, "c": 7, "d": {"init_kwargs": 1}})");
  add("data/other", "[]");
  CHECK(format_of(c.path()) == "atrex-bench");
  CHECK(format_of(c.path("data")) == "atrex-bench");
  CHECK(format_of(c.path("data/norm")) == "atrex-bench");
  const auto found = import_atrex(c.path());
  REQUIRE(found);
  REQUIRE(found->tasks.size() == 2);
  CHECK(found->tasks[0].name == "norm-0");
  CHECK(has(found->tasks[0].text, R"(_make_inputs(**{"shape": [1, 2]}))"));
  CHECK(has(found->tasks[0].text, R"(return [[], {"eps": 0.5}])"));
  CHECK(has(found->tasks[1].text, "return [[], {}]"));
  CHECK(found->left_out.size() == 3);
  CHECK(import_atrex(c.path("data/norm"))->tasks.size() == 2);
  CHECK(import_atrex(c.path("data/other")).error().kind.name() == "bad_task");
  const Collection empty;
  CHECK(import_atrex(empty.path()).error().kind.name() == "no_tasks");
}

TEST_CASE("results go back in the collection's own form") {
  Row good, bad;
  good.outcome = "verified";
  good.hardware = "H";
  good.runtime = kernelbench::stats_of({1, 3});
  good.times_ms = {{"solution", 2}, {"eager", 4}};
  good.speedup = {{"eager", 2}};
  bad.outcome = "refused";
  bad.verdict = "wrong";
  bad.message = "two\nlines";
  const auto written = [&](const char* format, const Json& one, const Json& two) {
    const auto origin = read_origin(dump_json({{"format", format}, {"tasks", {{"a", one}, {"b", two}}}}));
    REQUIRE(origin);
    good.task = "a";
    bad.task = "b";
    Row other = good;
    other.task = "unknown";
    return results_of(*origin, {good, bad, other}, "mine");
  };
  auto out = written("gpu-mode", {{"task", "t"}, {"case", "benchmark-0"}, {"spec", {{"size", 8}}}},
                     {{"task", "t"}, {"case", "test-0"}, {"spec", {{"size", 4}}}});
  CHECK(out.at("t.benchmark.txt")
            .starts_with(
                "benchmark-count: 1\nbenchmark.0.spec: size: 8\nbenchmark.0.runs: 2\nbenchmark.0.mean: 2000000\n"));
  CHECK(out.at("t.benchmark.txt").ends_with("check: pass\n"));
  CHECK(out.at("t.test.txt") ==
        "test-count: 1\ntest.0.spec: size: 4\ntest.0.status: fail\ntest.0.error: two lines\ncheck: fail\n");
  out = written("flashinfer-bench", {{"definition", "d"}, {"workload", {{"uuid", "1"}}}},
                {{"definition", "d"}, {"workload", {{"uuid", "2"}}}});
  const std::string lines = out.at("traces/d.jsonl");
  const auto first = parse_json(lines.substr(0, lines.find('\n')), "bad_text", "trace"),
             second = parse_json(lines.substr(lines.find('\n') + 1), "bad_text", "trace");
  REQUIRE(first);
  REQUIRE(second);
  CHECK((*first)["evaluation"]["status"] == "PASSED");
  CHECK((*first)["evaluation"]["performance"]["speedup_factor"] == 2);
  CHECK((*first)["solution"] == "mine");
  CHECK((*second)["evaluation"]["status"] == "INCORRECT_NUMERICAL");
  CHECK((*second)["evaluation"]["performance"].is_null());
  out = written("backendbench", {{"operator", "aten.relu.default"}, {"arguments", "((), {})"}},
                {{"operator", "aten.relu.default"}, {"arguments", "((1,), {})"}});
  CHECK(has(out.at("operator_summary.csv"), "aten.relu.default,2,1,1,0.5,2\n"));
  const auto failed = parse_json(out.at("failed_ops.json"), "bad_text", "failed");
  REQUIRE(failed);
  CHECK(failed->size() == 1);
  CHECK((*failed)[0]["args"] == "((1,), {})");
  CHECK(written("tritonbench", Json::object(), Json::object()).empty());
  CHECK(read_origin("[]").error().kind.name() == "bad_origin");
  CHECK(read_origin(R"({"format":"x","tasks":{"a":1}})").error().kind.name() == "bad_origin");
}
