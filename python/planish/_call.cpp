// planish_call: one call of a shipped module in C. It makes the checks of ship/guards.py that most calls need,
// allocates the outputs, launches through libplanish_rt, and answers `miss` for anything it does not recognise at once:
// then the Python form decides. Built against Python's limited API (3.10), so that one binary serves every interpreter,
// and without libtorch: tensors are read through torch's DLPack exchange table
// (torch.Tensor.__dlpack_c_exchange_api__), which costs next to nothing where Python attributes cost a microsecond a
// tensor, and whose layout is versioned. Outputs come from a torch allocation function that the caller names, so that
// they are ordinary tensors.
//
// A Plan is immutable but for what it remembers of earlier calls, which is read and written with the GIL held; the GIL
// is released while kernels are launched, unless they take no time.
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030A0000
#include <Python.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "_call_nest.h"
#include "_call_reached.h"
#include "_call_watch.h"

namespace {

using namespace planish_call;

// ---- libplanish_rt ----
struct RtError {
  char kind[32];
  char message[2016];
};
using RtRun = int (*)(void* program, void* const* pointers, int count, int first, int last, void* stream,
                      RtError* error);
using RtThreads = int (*)(int most);

std::atomic<long long> hits{0};

/// A tensor's dtype and layout; `buffer` is its place in the pointer table.
struct Layout {
  long buffer = -1;
  DlType dtype{};
  std::vector<std::int64_t> shape, strides;
  bool signs = false;       ///< a dtype whose tensors can have a pending negation
  bool conjugates = false;  ///< the same of a conjugate
  /// From the first byte to just after the last.
  std::size_t bytes() const { return extent(shape.size(), shape.data(), strides.data(), dtype); }
};

struct Parameter {
  PyObject *store = nullptr, *key = nullptr;
  Layout layout;
  std::size_t holder = 0;     ///< that `store` is
  PyObject* found = nullptr;  ///< in the last call; alive as long as the holder is unchanged
};
/// Two places that hold one tensor.
struct Tie {
  PyObject *store = nullptr, *key = nullptr, *other_store = nullptr, *other_key = nullptr;
};
struct Fresh {
  long buffer = -1;
  PyObject *shape = nullptr, *strides = nullptr, *dtype = nullptr;
};
struct Arena {
  long long bytes = 0;
  PyObject *shape = nullptr, *strides = nullptr, *dtype = nullptr;
  std::vector<std::pair<long, std::int64_t>> places;
};
/// An output: the index of a fresh tensor, or a value that is always the same.
struct Output {
  long fresh = -1;
  PyObject* value = nullptr;
};

/// A tensor of the caller's that a call changes: the program's last steps copy its new value there, or its kernels
/// write it there, into what stands for buffer `direct`.
struct Effect {
  std::size_t place = 0;  ///< among the inputs, and behind them the parameters
  long direct = -1;
  long versions = 0;  ///< that the tensor's version counter goes up by
};

/// One call at a time through a plan with effects, as each is to see what the one before left. Where a fork happens
/// while a call is under way, the child starts with nobody inside.
struct Turns {
  std::mutex mutex;
  pid_t process = getpid();
};

/// Every PyObject* is borrowed from `keep`, the keyword arguments it was made of. The module is a weak reference, and
/// its dictionary is not among them: both own the plan.
struct Plan {
  const DlExchange* torch = nullptr;
  PyObject *miss = nullptr, *module = nullptr, *allocate = nullptr, *error = nullptr, *finish = nullptr,
           *grad = nullptr;
  PyObject *default_dtype = nullptr, *captured_dtype = nullptr, *forward_ad = nullptr;
  PyObject *tensor_type = nullptr, *parameter_type = nullptr, *root_training = nullptr;
  std::vector<PyObject*> falsy, empty, absent;
  mutable Holders holders;  ///< what the dictionaries of submodules, and others that forward can reach, must hold
  std::vector<Layout> inputs;
  std::size_t unused = 0;  ///< tensors that a call is given behind the inputs, and the program does not read
  Nest given, keywords, answer;
  bool apart = false;                        ///< no object may stand in two places of a call
  std::vector<std::pair<Nest, Nest>> forms;  ///< other ways of writing the same call, by position and by name
  Reached reached;
  bool attributes = false;  ///< the code asks inputs for attributes that torch does not give them: they must have none
  bool nested = false;      ///< inputs that only a list or dictionary of the caller's may hold
  mutable std::vector<Parameter> parameters;
  std::vector<Tie> ties;
  /// Function of the tensors, in the table's order, that runs the program where the runtime alone cannot.
  PyObject* execute = nullptr;
  std::vector<void*> table;
  std::vector<Fresh> fresh;
  Arena arena;
  std::vector<Output> outputs;
  std::vector<Effect> effects;
  PyObject* raise_versions = nullptr;  ///< of torch: the counters of all tensors in an iterable, by one each
  mutable Turns turns;
  RtRun run = nullptr;
  RtThreads limit = nullptr;    ///< null: not on the CPU
  PyObject* threads = nullptr;  ///< torch's setting for the thread that asks
  void* program = nullptr;
  int steps = 0;
  mutable std::atomic<long long> hits{0};  ///< calls answered
  bool brief = false;                      ///< work that is done sooner than the GIL is given away and taken back
  DlDevice device{};
  PyObject *keep = nullptr, *made = nullptr;
  // Interned names.
  PyObject *training = nullptr, *hooks = nullptr, *pre_hooks = nullptr, *requires_grad = nullptr, *is_neg = nullptr,
           *is_conj = nullptr, *level = nullptr, *forward = nullptr, *version = nullptr;
};

struct PlanObject {
  PyObject_HEAD Plan* plan;
};

// ---- a call ----

/// `function()`; functions of C without arguments, which torch's queries are, are called without a detour.
Ref call(PyObject* function) {
  if (PyCFunction_GetFlags(function) == METH_NOARGS) {
    return Ref(PyCFunction_GetFunction(function)(PyCFunction_GetSelf(function), nullptr));
  }
  PyErr_Clear();  // it was not a function of C
  return Ref(PyObject_CallNoArgs(function));
}

/// 1, 0, or -1 with an exception.
int truth(PyObject* function) {
  const Ref value = call(function);
  if (!value) return -1;
  if (value.get() == Py_False || value.get() == Py_None) return 0;
  return PyObject_IsTrue(value.get());
}

bool same_layout(const Layout& wanted, const DlTensor& t) {
  const auto n = wanted.shape.size();
  if (static_cast<std::size_t>(t.ndim) != n || std::memcmp(&t.dtype, &wanted.dtype, sizeof t.dtype) != 0) return false;
  bool empty = false;
  for (std::size_t i = 0; i < n; ++i) {
    if (t.shape[i] != wanted.shape[i]) return false;
    empty = empty || t.shape[i] == 0;
  }
  for (std::size_t i = 0; i < n && !empty; ++i) {
    if (t.shape[i] > 1 && t.strides[i] != wanted.strides[i]) return false;
  }
  return true;
}

/// A tensor fits that has no attributes but torch's.
Look has_no_attributes(PyObject* tensor) {
  const Ref beside(PyObject_GenericGetDict(tensor, nullptr));
  if (!beside) return Look::failed;
  return PyDict_Size(beside.get()) == 0 ? Look::fits : Look::differs;
}

/// Whether it is a tensor of no class of its own.
bool is_plain(const Plan& plan, PyObject* tensor) {
  const auto* type = reinterpret_cast<PyObject*>(Py_TYPE(tensor));
  return type == plan.tensor_type || type == plan.parameter_type;
}

/// Whether a tensor is what the program was made for; if so its address goes into the table, and to `at` if that is
/// not null.
Look take(const Plan& plan, PyObject* tensor, const Layout& wanted, bool grad, void** table, void** at) {
  if (!is_plain(plan, tensor)) return Look::differs;
  DlTensor t{};
  if (plan.torch->view(tensor, &t) != 0) {
    PyErr_Clear();  // a tensor without plain memory: sparse, meta, …
    return Look::differs;
  }
  void* data = static_cast<char*>(t.data) + t.byte_offset;
  if (t.device.type != plan.device.type || t.device.index != plan.device.index || !same_layout(wanted, t))
    return Look::differs;
  if ((reinterpret_cast<std::uintptr_t>(data) & 15U) != 0) return Look::differs;
  if (data == nullptr && wanted.bytes() != 0) return Look::differs;  // its storage was freed, or it never had one
  if (const Look look = asks_no_gradients(tensor, grad ? plan.requires_grad : nullptr); look != Look::fits) return look;
  for (PyObject* pending : {wanted.signs ? plan.is_neg : nullptr, wanted.conjugates ? plan.is_conj : nullptr}) {
    if (pending == nullptr) continue;
    const Ref there(PyObject_CallMethodObjArgs(tensor, pending, nullptr));
    if (!there) return Look::failed;
    if (there.get() != Py_False) return Look::differs;
  }
  if (wanted.buffer >= 0 && data != nullptr) table[wanted.buffer] = data;
  if (at != nullptr) *at = data;
  return Look::fits;
}

/// A tensor that the program does not read fits whatever is in it.
Look is_tensor(const Plan& plan, PyObject* tensor, bool grad) {
  if (!is_plain(plan, tensor)) return Look::differs;
  return asks_no_gradients(tensor, grad ? plan.requires_grad : nullptr);
}

/// The same for the arguments given[1] and the keyword arguments given[2] of a call.
Look unpack_call(const Plan& plan, const Nest& by_place, const Nest& by_name, PyObject* const* given, Unpacked& out) {
  out.objects.clear();
  out.kept.clear();
  Look look = unpack(by_place, given[1], out);
  if (look == Look::fits) look = unpack(by_name, given[2], out);
  if (look != Look::fits || !plan.apart) return look;
  std::ranges::sort(out.objects);
  return std::ranges::adjacent_find(out.objects) == out.objects.end() ? Look::fits : Look::differs;
}

Look context_is_plain(const Plan& plan) {
  for (PyObject* question : plan.falsy) {
    const int yes = truth(question);
    if (yes != 0) return yes < 0 ? Look::failed : Look::differs;
  }
  for (PyObject* dict : plan.empty) {
    if (PyDict_Size(dict) != 0) return Look::differs;
  }
  PyObject* level = PyDict_GetItemWithError(plan.forward_ad, plan.level);
  if (level == nullptr) return PyErr_Occurred() != nullptr ? Look::failed : Look::differs;
  if (PyLong_AsLong(level) >= 0 || PyErr_Occurred() != nullptr)
    return PyErr_Occurred() != nullptr ? Look::failed : Look::differs;
  const Ref dtype = call(plan.default_dtype);
  if (!dtype) return Look::failed;
  return dtype.get() == plan.captured_dtype ? Look::fits : Look::differs;
}

bool holds(PyObject* dict, PyObject* key, PyObject* wanted) {
  return wanted == Py_None || PyDict_GetItemWithError(dict, key) == wanted;
}

Look modules_are_captured(const Plan& plan, PyObject* module) {
  const Ref root(PyObject_GenericGetDict(module, nullptr));
  if (!root) return Look::failed;
  bool same = holds(root.get(), plan.training, plan.root_training);
  for (PyObject* name : plan.absent) {
    PyObject* found = PyDict_GetItemWithError(root.get(), name);
    same = same && (found == nullptr || found == Py_None);
  }
  if (PyErr_Occurred() != nullptr) return Look::failed;
  return same ? plan.holders.compare() : Look::differs;
}

/// A new tensor, and its address. Null with an exception.
PyObject* allocate(const Plan& plan, PyObject* shape, PyObject* strides, PyObject* dtype, void** data) {
  Ref made(PyObject_CallFunctionObjArgs(plan.allocate, shape, strides, dtype, nullptr));
  if (!made) return nullptr;
  DlTensor t{};
  if (plan.torch->view(made.get(), &t) != 0) return nullptr;
  *data = static_cast<char*>(t.data) + t.byte_offset;
  return made.release();
}

PyObject* launch(const Plan& plan, void* const* table) {
  void* stream = nullptr;
  if (plan.device.type == dl_cuda && plan.torch->stream(plan.device.type, plan.device.index, &stream) != 0)
    return nullptr;
  if (plan.limit != nullptr) {
    const Ref threads(call(plan.threads));
    const long most = threads ? PyLong_AsLong(threads.get()) : -1;
    if (most < 0 && PyErr_Occurred() != nullptr) return nullptr;
    plan.limit(static_cast<int>(most));
  }
  RtError error;
  const auto count = static_cast<int>(plan.table.size());
  const bool in_turns = !plan.effects.empty() && !plan.brief;  // who keeps the GIL is alone anyway
  if (in_turns && plan.turns.process != getpid()) {
    new (&plan.turns.mutex) std::mutex;
    plan.turns.process = getpid();
  }
  PyThreadState* thread = plan.brief ? nullptr : PyEval_SaveThread();
  if (in_turns) plan.turns.mutex.lock();
  const int code = plan.run(plan.program, table, count, 0, plan.steps, stream, &error);
  if (in_turns) plan.turns.mutex.unlock();
  if (thread != nullptr) PyEval_RestoreThread(thread);
  if (code == 0) return plan.miss;  // anything but null
  const Ref raised(
      PyObject_CallFunction(plan.error, "ss", error.kind[0] != '\0' ? error.kind : "launch_failed", error.message));
  if (raised) PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(raised.get())), raised.get());
  return nullptr;
}

/// Where a tensor lies, and whether the call changes it.
struct Span {
  std::uintptr_t first = 0, end = 0;
  bool changes = false;
};

/// Whether memory that a call changes is also that of another of its tensors: then the order of reads and writes, of
/// which a program has its own, would show.
bool overlaps(std::vector<Span>& spans) {
  std::ranges::sort(spans, {}, &Span::first);
  std::uintptr_t any = 0, changed = 0;
  for (const Span& span : spans) {
    if (span.first < (span.changes ? any : changed)) return true;
    any = std::max(any, span.end);
    if (span.changes) changed = std::max(changed, span.end);
  }
  return false;
}

/// Finds the targets of a call's effects among its tensors, whose addresses are `at`.
Look place_effects(const Plan& plan, void* const* at, void** table) {
  const std::size_t inputs = plan.inputs.size(), all = inputs + plan.parameters.size();
  std::vector<Span> spans(all);
  spans.reserve(all + plan.reached.versions.size());
  for (std::size_t i = 0; i < all; ++i) {
    spans[i].first = reinterpret_cast<std::uintptr_t>(at[i]);
    const Layout& layout = i < inputs ? plan.inputs[i] : plan.parameters[i - inputs].layout;
    spans[i].end = spans[i].first + layout.bytes();
  }
  for (const Effect& effect : plan.effects) {
    spans[effect.place].changes = true;
    if (effect.direct >= 0) table[effect.direct] = at[effect.place];
  }
  for (const auto& [tensor, version] : plan.reached.versions) {
    if (version < 0) continue;  // it holds others
    DlTensor t{};
    if (plan.torch->view(tensor, &t) != 0) {
      PyErr_Clear();
      return Look::differs;
    }
    const auto first = reinterpret_cast<std::uintptr_t>(static_cast<char*>(t.data) + t.byte_offset);
    spans.push_back({first, first + extent(t), false});
  }
  return overlaps(spans) ? Look::differs : Look::fits;
}

/// Counts the changes in the tensors' versions, as operators of torch do. Null with an exception.
PyObject* count_changes(const Plan& plan, PyObject* const* tensors, PyObject* const* parameters) {
  Py_ssize_t count = 0;
  for (const Effect& effect : plan.effects) count += effect.versions;
  if (count == 0) return plan.miss;
  const Ref changed(PyTuple_New(count));
  if (!changed) return nullptr;
  Py_ssize_t next = 0;
  for (const Effect& effect : plan.effects) {
    const std::size_t inputs = plan.inputs.size();
    PyObject* tensor = effect.place < inputs ? tensors[effect.place] : parameters[effect.place - inputs];
    for (long i = 0; i < effect.versions; ++i) {
      Py_INCREF(tensor);
      PyTuple_SetItem(changed.get(), next++, tensor);
    }
  }
  const Ref done(PyObject_CallFunctionObjArgs(plan.raise_versions, changed.get(), nullptr));
  return done ? plan.miss : nullptr;
}

PyObject* pack(const Plan& plan, const Nest& nest, PyObject* const* fresh) {
  using enum Nest::Kind;
  if (nest.kind == tensor) {
    const Output& out = plan.outputs[nest.place];
    PyObject* one = out.fresh >= 0 ? fresh[out.fresh] : out.value;
    Py_INCREF(one);
    return one;
  }
  const auto count = static_cast<Py_ssize_t>(nest.items.size());
  Ref whole(nest.kind == tuple ? PyTuple_New(count) : nest.kind == list ? PyList_New(count) : PyDict_New());
  if (!whole) return nullptr;
  for (std::size_t i = 0; i < nest.items.size(); ++i) {
    const auto at = static_cast<Py_ssize_t>(i);
    Ref item(pack(plan, nest.items[i], fresh));
    if (!item) return nullptr;
    const int failed = nest.kind == tuple  ? PyTuple_SetItem(whole.get(), at, item.release())
                       : nest.kind == list ? PyList_SetItem(whole.get(), at, item.release())
                                           : PyDict_SetItem(whole.get(), nest.keys[i], item.get());
    if (failed != 0) return nullptr;
  }
  return whole.release();
}

/// `given`: the module, the arguments and the keyword arguments.
PyObject* results(const Plan& plan, PyObject* const* fresh, PyObject* const* given) {
  if (plan.finish == Py_None) return pack(plan, plan.answer, fresh);
  const auto value = [&](const Output& out) { return out.fresh >= 0 ? fresh[out.fresh] : out.value; };
  const Ref list(PyList_New(static_cast<Py_ssize_t>(plan.outputs.size())));
  if (!list) return nullptr;
  for (std::size_t i = 0; i < plan.outputs.size(); ++i) {
    PyObject* one = value(plan.outputs[i]);
    Py_INCREF(one);
    PyList_SetItem(list.get(), static_cast<Py_ssize_t>(i), one);
  }
  return PyObject_CallFunctionObjArgs(plan.finish, list.get(), given[1], given[2], nullptr);
}

/// Results of a call whose program `execute` runs.
PyObject* execute(const Plan& plan, PyObject* const* tensors, PyObject* const* parameters, PyObject* const* given) {
  const Ref all(PyList_New(static_cast<Py_ssize_t>(plan.table.size())));
  if (!all) return nullptr;
  const auto put = [&](const Layout& layout, PyObject* tensor) {
    Py_INCREF(tensor);
    return PyList_SetItem(all.get(), layout.buffer, tensor) == 0;
  };
  for (std::size_t i = 0; i < plan.inputs.size(); ++i) {
    if (!put(plan.inputs[i], tensors[i])) return nullptr;
  }
  for (std::size_t i = 0; i < plan.parameters.size(); ++i) {
    if (!put(plan.parameters[i].layout, parameters[i])) return nullptr;
  }
  const Ref found(PyObject_CallFunctionObjArgs(plan.execute, all.get(), nullptr));
  if (!found) return nullptr;
  hits.fetch_add(1, std::memory_order_relaxed);
  plan.hits.fetch_add(1, std::memory_order_relaxed);
  return PyObject_CallFunctionObjArgs(plan.finish, found.get(), given[1], given[2], nullptr);
}

/// Takes parameters as inputs are taken: `held` gets owned references to them.
Look take_parameters(const Plan& plan, bool grad, PyObject** held, void** table, void** at) {
  for (std::size_t i = 0; i < plan.parameters.size(); ++i) {
    Parameter& parameter = plan.parameters[i];
    if (parameter.found == nullptr || !plan.holders.unchanged(parameter.holder))
      parameter.found = PyDict_GetItemWithError(parameter.store, parameter.key);
    PyObject* tensor = parameter.found;
    if (tensor == nullptr) return PyErr_Occurred() != nullptr ? Look::failed : Look::differs;
    Py_INCREF(tensor);
    held[i] = tensor;
    const Look look = take(plan, tensor, parameter.layout, grad, table, at == nullptr ? nullptr : at + i);
    if (look != Look::fits) return look;
  }
  for (const Tie& tie : plan.ties) {
    if (PyDict_GetItemWithError(tie.store, tie.key) != PyDict_GetItemWithError(tie.other_store, tie.other_key))
      return Look::differs;
  }
  return Look::fits;
}

/// run(module, args, kwargs): the outputs, or `miss`.
PyObject* run(PyObject* self, PyObject* const* given, Py_ssize_t count) {
  const Plan& plan = *reinterpret_cast<PlanObject*>(self)->plan;
  const auto miss = [&] {
    Py_INCREF(plan.miss);
    return plan.miss;
  };
  const auto answer = [&](Look look) -> PyObject* { return look == Look::failed ? nullptr : miss(); };
  if (count != 3 || PyWeakref_GetObject(plan.module) != given[0]) return miss();
  PyObject* few[16];
  const std::size_t leaves = plan.inputs.size() + plan.unused;
  std::vector<PyObject*> many(leaves > 16 ? leaves : 0);
  PyObject** tensors = many.empty() ? few : many.data();
  Unpacked out{tensors, plan.nested, {}, {}};
  Look written = unpack_call(plan, plan.given, plan.keywords, given, out);
  for (const auto& [by_place, by_name] : plan.forms) {
    if (written == Look::differs) written = unpack_call(plan, by_place, by_name, given, out);
  }
  if (written != Look::fits) return answer(written);
  if (const Look look = context_is_plain(plan); look != Look::fits) return answer(look);
  if (const Look look = modules_are_captured(plan, given[0]); look != Look::fits) return answer(look);
  const int grad = truth(plan.grad);
  if (grad < 0) return nullptr;
  if (const Look look =
          is_captured(plan.reached, *plan.torch, given[0], plan.version, grad != 0 ? plan.requires_grad : nullptr);
      look != Look::fits)
    return answer(look);

  constexpr std::size_t usual = 64;
  void* on_stack[usual];
  std::vector<void*> on_heap;
  void** table = on_stack;
  if (plan.table.size() > usual) {
    on_heap = plan.table;
    table = on_heap.data();
  } else if (!plan.table.empty()) {
    std::memcpy(table, plan.table.data(), plan.table.size() * sizeof(void*));
  }
  /// References that a call holds while kernels run without the GIL: parameters (somebody may replace one meanwhile),
  /// fresh tensors, and the memory of temporaries; `out` has those to what lies in lists. Given up on every way out.
  struct Held {
    PyObject* few[12] = {};
    std::vector<PyObject*> many;
    PyObject** at = few;
    std::size_t count;
    explicit Held(std::size_t n) : count(n) {
      if (n > 12) {
        many.assign(n, nullptr);
        at = many.data();
      }
    }
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;
    ~Held() {
      for (std::size_t i = 0; i < count; ++i) Py_XDECREF(at[i]);
    }
  } held(plan.fresh.size() + plan.parameters.size() + 1);
  std::vector<void*> addresses(plan.effects.empty() ? 0 : plan.inputs.size() + plan.parameters.size());
  void** at = addresses.empty() ? nullptr : addresses.data();
  for (std::size_t i = 0; i < plan.inputs.size(); ++i) {
    Look look = take(plan, tensors[i], plan.inputs[i], grad != 0, table, at == nullptr ? nullptr : at + i);
    if (look == Look::fits && plan.attributes) look = has_no_attributes(tensors[i]);
    if (look != Look::fits) return answer(look);
  }
  for (std::size_t i = plan.inputs.size(); i < leaves; ++i) {
    Look look = is_tensor(plan, tensors[i], grad != 0);
    if (look == Look::fits && plan.attributes) look = has_no_attributes(tensors[i]);
    if (look != Look::fits) return answer(look);
  }
  const std::size_t first_parameter = plan.fresh.size(), arena = first_parameter + plan.parameters.size();
  if (const Look look = take_parameters(plan, grad != 0, held.at + first_parameter, table,
                                        at == nullptr ? nullptr : at + plan.inputs.size());
      look != Look::fits)
    return answer(look);
  if (at != nullptr) {
    if (const Look look = place_effects(plan, at, table); look != Look::fits) return answer(look);
  }
  if (plan.execute != nullptr) return execute(plan, tensors, held.at + first_parameter, given);
  for (std::size_t i = 0; i < plan.fresh.size(); ++i) {
    const Fresh& fresh = plan.fresh[i];
    void* data = nullptr;
    held.at[i] = allocate(plan, fresh.shape, fresh.strides, fresh.dtype, &data);
    if (held.at[i] == nullptr) return nullptr;
    if (data != nullptr) table[fresh.buffer] = data;
  }
  if (plan.arena.bytes > 0) {
    void* data = nullptr;
    held.at[arena] = allocate(plan, plan.arena.shape, plan.arena.strides, plan.arena.dtype, &data);
    if (held.at[arena] == nullptr) return nullptr;
    for (const auto& [buffer, offset] : plan.arena.places) table[buffer] = static_cast<char*>(data) + offset;
  }
  if (launch(plan, table) == nullptr) return nullptr;
  if (at != nullptr && count_changes(plan, tensors, held.at + first_parameter) == nullptr) return nullptr;
  hits.fetch_add(1, std::memory_order_relaxed);
  plan.hits.fetch_add(1, std::memory_order_relaxed);
  return results(plan, held.at, given);
}

// ---- making a plan ----

/// From item `at` of `row`: buffer, a tensor of the dtype, shape, strides.
Layout read_layout(Reader& read, const Plan& plan, PyObject* row, Py_ssize_t at) {
  Layout out;
  out.buffer = static_cast<long>(read.number(read.item(row, at)));
  PyObject* sample = read.item(row, at + 1);
  DlTensor t{};
  if (read.failed() || plan.torch->view(sample, &t) != 0) return out;
  out.dtype = t.dtype;
  out.signs = t.dtype.code == dl_float || t.dtype.code == dl_bfloat || t.dtype.code == dl_complex;
  out.conjugates = t.dtype.code == dl_complex;
  out.shape = read.numbers(read.item(row, at + 2));
  out.strides = read.numbers(read.item(row, at + 3));
  return out;
}

/// Each input stands once in a call. Else an exception is set.
void check_places(const Plan& plan, const Nest& by_place, const Nest& by_name) {
  std::vector<int> counts(plan.inputs.size() + plan.unused, 0);
  count_places(by_place, counts);
  count_places(by_name, counts);
  for (const int times : counts) {
    if (times != 1) PyErr_SetString(PyExc_ValueError, "an input that is not given once");
  }
}

bool find_exchange(Plan* plan) {
  const Ref capsule(PyObject_GetAttrString(plan->tensor_type, "__dlpack_c_exchange_api__"));
  if (!capsule) return false;
  plan->torch = static_cast<const DlExchange*>(PyCapsule_GetPointer(capsule.get(), "dlpack_exchange_api"));
  if (plan->torch == nullptr) return false;
  if (plan->torch->major == 1 && plan->torch->view != nullptr && plan->torch->stream != nullptr) return true;
  PyErr_SetString(PyExc_ImportError, "torch's DLPack exchange table has another version");
  return false;
}

/// A dictionary's entry that must be a dictionary of these values, in turn.
void hold_values(Plan* plan, PyObject* dict, PyObject* key, std::vector<PyObject*> values) {
  PyObject* now = PyDict_GetItemWithError(dict, key);
  if (now != nullptr && PyDict_Check(now) != 0) {
    Holder& holder = plan->holders.of(now);
    if (holder.exact && holder.values != values) now = nullptr;
    holder.exact = true;
    if (now != nullptr) holder.values = values;
  }
  plan->holders.of(dict).held.push_back({key, now, std::move(values)});
}

/// A submodule: (its parent's submodules, its name there, it, its attributes, its mode or None, hooks before it, hooks
/// behind it).
void read_child(Reader& read, Plan* plan, PyObject* row) {
  PyObject *parent = read.item(row, 0), *key = read.item(row, 1), *module = read.item(row, 2);
  PyObject *attributes = read.item(row, 3), *training = read.item(row, 4);
  std::vector<PyObject*> before, behind;
  PyObject* hooks = read.item(row, 5);
  for (Py_ssize_t k = 0; k < read.size(hooks); ++k) before.push_back(read.item(hooks, k));
  hooks = read.size(row) > 6 ? read.item(row, 6) : nullptr;  // earlier guards let none pass
  for (Py_ssize_t k = 0; hooks != nullptr && k < read.size(hooks); ++k) behind.push_back(read.item(hooks, k));
  if (read.failed()) return;
  plan->holders.of(parent).items.emplace_back(key, module);
  Holder& own = plan->holders.of(attributes);
  if (training != Py_None) own.items.emplace_back(plan->training, training);
  own.items.emplace_back(plan->forward, nullptr);
  hold_values(plan, attributes, plan->hooks, std::move(behind));
  hold_values(plan, attributes, plan->pre_hooks, std::move(before));
}

/// Moves what `reached` says of dictionaries to the holders; the rest stays there.
void move_to_holders(Plan* plan) {
  Reached& reached = plan->reached;
  Holders& holders = plan->holders;
  std::erase_if(reached.items, [&](const Reached::Entry& item) {
    if (item.holder != nullptr) holders.of(item.holder).items.emplace_back(item.key, item.value);
    return item.holder != nullptr;
  });
  std::erase_if(reached.absent, [&](const Reached::Entry& item) {
    if (item.holder != nullptr) holders.of(item.holder).items.emplace_back(item.key, nullptr);
    return item.holder != nullptr;
  });
  std::erase_if(reached.sizes, [&](const Reached::Size& size) {
    if (size.container == nullptr || size.kind != Reached::Size::Kind::dict) return false;
    Holder& holder = holders.of(size.container);
    if (holder.size >= 0 && holder.size != size.count) return false;
    holder.size = size.count;
    return true;
  });
  std::erase_if(reached.orders, [&](const Reached::Entry& order) {
    const bool plain = order.holder != nullptr && order.value == nullptr;
    if (plain) holders.of(order.holder).orders.push_back(order.key);
    return plain;
  });
}

/// State that the module and what lies around it must have.
void read_surroundings(Reader& read, Plan* plan) {
  PyObject* rows = read.field("falsy");
  for (Py_ssize_t i = 0; i < read.size(rows); ++i) plan->falsy.push_back(read.item(rows, i));
  rows = read.field("empty");
  for (Py_ssize_t i = 0; i < read.size(rows); ++i) plan->empty.push_back(read.item(rows, i));
  rows = read.field("absent");
  for (Py_ssize_t i = 0; i < read.size(rows); ++i) plan->absent.push_back(read.item(rows, i));
  rows = read.field("tree");
  for (Py_ssize_t i = 0; i < read.size(rows); ++i) read_child(read, plan, read.item(rows, i));
  rows = read.field("sizes");
  for (Py_ssize_t i = 0; i < read.size(rows); ++i) {
    PyObject* row = read.item(rows, i);
    PyObject* submodules = read.item(row, 0);
    if (submodules != nullptr)
      plan->holders.of(submodules).size = static_cast<Py_ssize_t>(read.number(read.item(row, 1)));
  }
}

/// The tensors that a call is given, and the ways in which it may be written.
void read_inputs(Reader& read, Plan* plan) {
  PyObject* rows = read.field("users");
  for (Py_ssize_t i = 0; i < read.size(rows); ++i) {
    plan->inputs.push_back(read_layout(read, *plan, read.item(rows, i), 0));
  }
  plan->unused = static_cast<std::size_t>(read.number(read.field("unused")));
  const std::size_t leaves = plan->inputs.size() + plan->unused;
  plan->given = read_nest(read, read.field("given"), leaves);
  plan->keywords = read_nest(read, read.field("keywords"), leaves);
  plan->apart = read.field("apart") == Py_True;
  plan->nested = read.field("nested") == Py_True;
  plan->attributes = read.field("attributes") == Py_True;
  if (read.failed()) return;
  check_places(*plan, plan->given, plan->keywords);
  rows = read.field("forms");
  for (Py_ssize_t i = 0; i < read.size(rows); ++i) {
    PyObject* row = read.item(rows, i);
    plan->forms.emplace_back(read_nest(read, read.item(row, 0), leaves), read_nest(read, read.item(row, 1), leaves));
    if (!read.failed()) check_places(*plan, plan->forms.back().first, plan->forms.back().second);
  }
}

/// Parameters, and the memory that a call takes.
void read_buffers(Reader& read, Plan* plan) {
  PyObject* rows = read.field("params");
  for (Py_ssize_t i = 0; i < read.size(rows); ++i) {
    PyObject* row = read.item(rows, i);
    plan->parameters.push_back({read.item(row, 0), read.item(row, 1), read_layout(read, *plan, row, 2)});
    plan->parameters.back().layout.signs = false;
  }
  rows = read.field("ties");
  for (Py_ssize_t i = 0; i < read.size(rows); ++i) {
    PyObject* row = read.item(rows, i);
    plan->ties.push_back({read.item(row, 0), read.item(row, 1), read.item(row, 2), read.item(row, 3)});
  }
  rows = read.field("table");
  for (Py_ssize_t i = 0; i < read.size(rows); ++i) plan->table.push_back(read.address(read.item(rows, i)));
  rows = read.field("fresh");
  for (Py_ssize_t i = 0; i < read.size(rows); ++i) {
    PyObject* row = read.item(rows, i);
    plan->fresh.push_back(
        {static_cast<long>(read.number(read.item(row, 0))), read.item(row, 1), read.item(row, 2), read.item(row, 3)});
  }
  PyObject* arena = read.field("arena");
  plan->arena.dtype = read.item(arena, 1);
  rows = read.item(arena, 2);
  for (Py_ssize_t i = 0; i < read.size(rows); ++i) {
    PyObject* row = read.item(rows, i);
    plan->arena.places.emplace_back(static_cast<long>(read.number(read.item(row, 0))), read.number(read.item(row, 1)));
  }
}

void read_results(Reader& read, Plan* plan) {
  PyObject* rows = read.field("results");
  for (Py_ssize_t i = 0; i < read.size(rows); ++i) {
    PyObject* one = read.item(rows, i);
    Output output;
    if (one != nullptr && PyTuple_Check(one)) {
      output.value = read.item(one, 0);
    } else {
      const long long buffer = read.number(one);
      for (std::size_t f = 0; f < plan->fresh.size(); ++f) {
        if (plan->fresh[f].buffer == buffer) output.fresh = static_cast<long>(f);
      }
      if (output.fresh < 0 && !read.failed()) PyErr_SetString(PyExc_ValueError, "an output that no kernel writes");
    }
    plan->outputs.push_back(output);
  }
  if (plan->finish == Py_None) plan->answer = read_nest(read, read.field("answer"), plan->outputs.size());
}

void read_effects(Reader& read, Plan* plan) {
  PyObject* rows = read.field("effects");
  for (Py_ssize_t i = 0; i < read.size(rows); ++i) {
    PyObject* row = read.item(rows, i);
    plan->effects.push_back({static_cast<std::size_t>(read.number(read.item(row, 0))),
                             static_cast<long>(read.number(read.item(row, 2))),
                             static_cast<long>(read.number(read.item(row, 1)))});
    const Effect& effect = plan->effects.back();
    if (effect.place >= plan->inputs.size() + plan->parameters.size() || effect.versions < 0 ||
        effect.direct >= static_cast<long>(plan->table.size()))
      if (!read.failed()) PyErr_SetString(PyExc_ValueError, "an effect on no tensor of the call");
  }
}

/// Sets an exception where a buffer lies outside the table of pointers.
void check_table(const Plan* plan) {
  const long first = plan->execute != nullptr ? 0 : -1;  // who executes is given them all
  const auto outside = [&](long buffer) { return buffer < first || buffer >= static_cast<long>(plan->table.size()); };
  for (const Layout& input : plan->inputs) {
    if (outside(input.buffer)) PyErr_SetString(PyExc_ValueError, "an input outside the table");
  }
  for (const Parameter& parameter : plan->parameters) {
    if (outside(parameter.layout.buffer)) PyErr_SetString(PyExc_ValueError, "a parameter outside the table");
  }
  for (const Fresh& fresh : plan->fresh) {
    if (outside(fresh.buffer) || fresh.buffer < 0) PyErr_SetString(PyExc_ValueError, "an output outside the table");
  }
  for (const auto& [buffer, offset] : plan->arena.places) {
    if (outside(buffer) || buffer < 0) PyErr_SetString(PyExc_ValueError, "a temporary outside the table");
  }
}

/// False with an exception.
bool read_plan(PyObject* fields, Plan* plan) {
  Reader read(fields);
  PyObject* plain = read.field("plain");
  plan->tensor_type = read.item(plain, 0);
  plan->parameter_type = read.item(plain, 1);
  if (read.failed() || !find_exchange(plan)) return false;
  plan->miss = read.field("miss");
  plan->module = read.field("module");
  plan->allocate = read.field("allocate");
  plan->error = read.field("error");
  plan->finish = read.field("finish");
  plan->grad = read.field("grad");
  plan->default_dtype = read.item(read.field("default_dtype"), 0);
  plan->captured_dtype = read.item(read.field("default_dtype"), 1);
  plan->forward_ad = read.field("forward_ad");
  plan->root_training = read.field("root_training");
  read_surroundings(read, plan);
  const long long device = read.number(read.field("device"));
  plan->device = device < 0 ? DlDevice{dl_cpu, 0} : DlDevice{dl_cuda, static_cast<std::int32_t>(device)};
  read_inputs(read, plan);
  if (read.failed()) return false;
  read_reached(read.field("reached"), plan->reached);
  read_buffers(read, plan);
  if (read.failed()) return false;
  move_to_holders(plan);
  for (Parameter& parameter : plan->parameters) parameter.holder = plan->holders.place(parameter.store);
  read_results(read, plan);
  PyObject* execute = read.field("execute");
  plan->execute = execute == Py_None ? nullptr : execute;
  PyObject* how = read.field("launch");
  void* function = read.address(read.item(how, 0));
  std::memcpy(&plan->run, &function, sizeof function);
  plan->program = read.address(read.item(how, 1));
  plan->steps = static_cast<int>(read.number(read.item(how, 2)));
  plan->raise_versions = read.field("raise_versions");
  read_effects(read, plan);
  if (PyObject* threads = read.field("threads"); threads != nullptr && threads != Py_None) {
    plan->threads = read.item(threads, 0);
    void* limit = read.address(read.item(threads, 1));
    std::memcpy(&plan->limit, &limit, sizeof limit);
  }
  plan->brief = read.field("brief") == Py_True;
  check_table(plan);
  if (plan->execute == nullptr && plan->outputs.empty() && plan->effects.empty() && !read.failed())
    PyErr_SetString(PyExc_ValueError, "a plan without outputs");
  return !read.failed();
}

/// Objects that the plan makes itself live as long as it: names, and the arena's shape.
bool make_names(Plan* plan) {
  Reader read(plan->keep);
  plan->arena.bytes = read.number(read.item(read.field("arena"), 0));
  if (read.failed()) return false;
  plan->made = Py_BuildValue(
      "(NNNNNN(L)(i)NNN)", PyUnicode_InternFromString("training"), PyUnicode_InternFromString("_forward_hooks"),
      PyUnicode_InternFromString("_forward_pre_hooks"), PyUnicode_InternFromString("requires_grad"),
      PyUnicode_InternFromString("is_neg"), PyUnicode_InternFromString("_current_level"), plan->arena.bytes, 1,
      PyUnicode_InternFromString("forward"), PyUnicode_InternFromString("_version"),
      PyUnicode_InternFromString("is_conj"));
  if (plan->made == nullptr) return false;
  Py_ssize_t at = 0;
  for (PyObject** slot :
       {&plan->training, &plan->hooks, &plan->pre_hooks, &plan->requires_grad, &plan->is_neg, &plan->level,
        &plan->arena.shape, &plan->arena.strides, &plan->forward, &plan->version, &plan->is_conj}) {
    *slot = PyTuple_GetItem(plan->made, at++);
  }
  return true;
}

PyObject* plan_new(PyTypeObject* type, PyObject* args, PyObject* fields) {
  if (fields == nullptr || PyTuple_Size(args) != 0) {
    PyErr_SetString(PyExc_TypeError, "a plan takes keyword arguments");
    return nullptr;
  }
  const auto create = reinterpret_cast<allocfunc>(PyType_GetSlot(type, Py_tp_alloc));
  Ref self(create(type, 0));
  if (!self) return nullptr;
  auto* object = reinterpret_cast<PlanObject*>(self.get());
  object->plan = new (std::nothrow) Plan;
  if (object->plan == nullptr) return PyErr_NoMemory();
  // A copy: what the caller does with its dictionary later must not take anything away.
  object->plan->keep = PyDict_Copy(fields);
  if (object->plan->keep == nullptr) return nullptr;
  try {
    if (!make_names(object->plan) || !read_plan(object->plan->keep, object->plan)) return nullptr;
    object->plan->holders.watch();
  } catch (const std::bad_alloc&) {
    return PyErr_NoMemory();
  }
  return self.release();
}

int plan_traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  if (const Plan* plan = reinterpret_cast<PlanObject*>(self)->plan; plan != nullptr) {
    Py_VISIT(plan->keep);
    Py_VISIT(plan->made);
  }
  return 0;
}

void plan_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  if (Plan* plan = reinterpret_cast<PlanObject*>(self)->plan; plan != nullptr) {
    PyObject *keep = plan->keep, *made = plan->made;
    delete plan;  // while what it watches is alive
    Py_XDECREF(keep);
    Py_XDECREF(made);
  }
  const auto release = reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free));
  release(self);
  Py_DECREF(type);
}

PyObject* count_hits(PyObject*, PyObject*) {
  return PyLong_FromLongLong(hits.load(std::memory_order_relaxed));
}

PyObject* count_plan_hits(PyObject* self, PyObject*) {
  const Plan* plan = reinterpret_cast<PlanObject*>(self)->plan;
  return PyLong_FromLongLong(plan == nullptr ? 0 : plan->hits.load(std::memory_order_relaxed));
}

PyObject* count_looked_into(PyObject* self, PyObject*) {
  const Plan* plan = reinterpret_cast<PlanObject*>(self)->plan;
  return PyLong_FromSize_t(plan == nullptr ? 0 : plan->holders.looked_into());
}

template <typename To, typename From>
To as(From from) {
  return reinterpret_cast<To>(reinterpret_cast<void*>(from));
}

PyMethodDef plan_methods[] = {
    {"run", as<PyCFunction>(&run), METH_FASTCALL, "run(module, args, kwargs): the outputs, or `miss`."},
    {"hits", count_plan_hits, METH_NOARGS, "Calls that this plan has answered."},
    {"looked_into", count_looked_into, METH_NOARGS,
     "Dictionaries that the last call compared; the others had not changed since they were compared twice."},
    {nullptr, nullptr, 0, nullptr}};

PyType_Slot plan_slots[] = {{Py_tp_new, as<void*>(&plan_new)},
                            {Py_tp_traverse, as<void*>(&plan_traverse)},
                            {Py_tp_dealloc, as<void*>(&plan_dealloc)},
                            {Py_tp_methods, plan_methods},
                            {Py_tp_doc, const_cast<char*>("One binding of a program to a module.")},
                            {0, nullptr}};

PyType_Spec plan_spec = {"planish_call.Plan", sizeof(PlanObject), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
                         plan_slots};

int start(PyObject* module) {
  const Ref type(PyType_FromSpec(&plan_spec));
  if (!type) return -1;
  // Says that plans compare what forward can reach: a library of an earlier version does not, and is not used.
  if (PyModule_AddIntConstant(module, "reached", 5) != 0) return -1;
  Changes::instance().start();
  if (PyModule_AddStringConstant(module, "changes", Changes::instance().way()) != 0) return -1;
  Py_INCREF(type.get());
  if (PyModule_AddObject(module, "Plan", type.get()) == 0) return 0;
  Py_DECREF(type.get());
  return -1;
}

PyMethodDef functions[] = {{"hits", count_hits, METH_NOARGS, "Calls that a plan has answered in this process."},
                           {nullptr, nullptr, 0, nullptr}};

PyModuleDef_Slot slots[] = {{Py_mod_exec, as<void*>(&start)}, {0, nullptr}};

PyModuleDef definition = {PyModuleDef_HEAD_INIT,
                          "planish_call",
                          "One call of a shipped module in C.",
                          0,
                          functions,
                          slots,
                          nullptr,
                          nullptr,
                          nullptr};

}  // namespace

extern "C" __attribute__((visibility("default"))) PyObject* PyInit_planish_call() {
  return PyModuleDef_Init(&definition);
}
