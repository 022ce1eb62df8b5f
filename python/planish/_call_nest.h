// Arguments taken apart as they were when the call was captured: the C form of ship/apart.py. Included by _call.cpp
// alone, for Python's limited API.
#pragma once

#include <Python.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "_call_reached.h"

namespace planish_call {

/// An attribute without tensors, as the captured call's object had it (ship/apart.py says which rule is for which).
struct Attribute {
  enum class Rule : std::uint8_t { same_object, equal, counted, asked } rule = Rule::same_object;
  /// `value`, where it is asked: a function of the attribute that says whether it fits.
  PyObject *name = nullptr, *value = nullptr;
  long long first = 0, last = 0;  ///< counted: a whole number from `first` to `last`
};

/// How arguments or results are nested.
struct Nest {
  enum class Kind : std::uint8_t { tensor, scalar, tuple, list, dict, object, node } kind = Kind::tensor;
  std::size_t place = 0;      ///< tensor: among the inputs, or the outputs
  PyObject* value = nullptr;  ///< scalar: what was captured; tuple, object, node: the class
  std::vector<Nest> items;
  std::vector<PyObject*> keys;        ///< dict, object: of the items
  std::vector<Attribute> attributes;  ///< object: beside the items
  /// Function that gives a node's (items, context), or the attributes of an object that lie in no dictionary.
  PyObject* parts = nullptr;
  PyObject* context = nullptr;  ///< node: what was captured
  bool any_order = false;       ///< dict: of keyword arguments with names of their own
};

/// Comparison of a number, string, … with the captured one: its type, its value, and a zero's sign; NaN is NaN.
inline Look same_scalar(PyObject* given, PyObject* value) {
  if (Py_TYPE(given) != Py_TYPE(value)) return Look::differs;
  if (Py_TYPE(value) == &PyFloat_Type) {
    const double a = PyFloat_AsDouble(given), b = PyFloat_AsDouble(value);
    return (a == b && std::signbit(a) == std::signbit(b)) || (a != a && b != b) ? Look::fits : Look::differs;
  }
  const int equal = PyObject_RichCompareBool(given, value, Py_EQ);
  return equal < 0 ? Look::failed : equal != 0 ? Look::fits : Look::differs;
}

inline Look same_attribute(const Attribute& wanted, PyObject* found) {
  switch (wanted.rule) {
    case Attribute::Rule::same_object:
      return found == wanted.value ? Look::fits : Look::differs;
    case Attribute::Rule::equal:
      return found == wanted.value ? Look::fits : same_scalar(found, wanted.value);
    case Attribute::Rule::counted: {
      if (Py_TYPE(found) != &PyLong_Type) return Look::differs;
      const long long now = PyLong_AsLongLong(found);
      if (now != -1 || PyErr_Occurred() == nullptr)
        return now >= wanted.first && now <= wanted.last ? Look::fits : Look::differs;
      PyErr_Clear();  // beyond 64 bits
      return Look::differs;
    }
    case Attribute::Rule::asked:
      break;
  }
  const Ref fits(PyObject_CallFunctionObjArgs(wanted.value, found, nullptr));
  if (!fits) return Look::failed;
  return fits.get() == Py_True ? Look::fits : Look::differs;
}

/// Parts of a call, borrowed from it or from `kept`.
struct Unpacked {
  PyObject** tensors = nullptr;
  bool nested = false;  ///< tensors lie in what other threads may change meanwhile: each is kept
  std::vector<PyObject*> objects;
  std::vector<Ref> kept;

  PyObject* keep(PyObject* owned) { return kept.emplace_back(owned).get(); }
  PyObject* keep_borrowed(PyObject* borrowed) {
    Py_INCREF(borrowed);
    return keep(borrowed);
  }
};

inline Look unpack(const Nest& nest, PyObject* given, Unpacked& out);

/// Attributes of an object, taken apart like the parts of any nest.
inline Look unpack_object(const Nest& nest, PyObject* given, Unpacked& out) {
  if (reinterpret_cast<PyObject*>(Py_TYPE(given)) != nest.value) return Look::differs;
  out.objects.push_back(out.keep_borrowed(given));
  PyObject* held = out.keep(nest.parts == nullptr ? PyObject_GenericGetDict(given, nullptr)
                                                  : PyObject_CallFunctionObjArgs(nest.parts, given, nullptr));
  if (held == nullptr) return Look::failed;
  if (PyDict_Check(held) == 0) return Look::differs;
  if (PyDict_Size(held) != static_cast<Py_ssize_t>(nest.items.size() + nest.attributes.size())) return Look::differs;
  for (const Attribute& attribute : nest.attributes) {
    PyObject* found = PyDict_GetItemWithError(held, attribute.name);
    if (found == nullptr) return PyErr_Occurred() != nullptr ? Look::failed : Look::differs;
    if (const Look look = same_attribute(attribute, found); look != Look::fits) return look;
  }
  for (std::size_t i = 0; i < nest.items.size(); ++i) {
    PyObject* found = PyDict_GetItemWithError(held, nest.keys[i]);
    if (found == nullptr) return PyErr_Occurred() != nullptr ? Look::failed : Look::differs;
    if (const Look look = unpack(nest.items[i], found, out); look != Look::fits) return look;
  }
  return Look::fits;
}

/// Parts of a class that torch knows as a nesting, taken apart likewise.
inline Look unpack_node(const Nest& nest, PyObject* given, Unpacked& out) {
  if (reinterpret_cast<PyObject*>(Py_TYPE(given)) != nest.value) return Look::differs;
  PyObject* parts = out.keep(PyObject_CallFunctionObjArgs(nest.parts, given, nullptr));
  if (parts == nullptr) return Look::failed;
  if (PyTuple_Check(parts) == 0 || PyTuple_Size(parts) != 2) return Look::differs;
  const int equal = PyObject_RichCompareBool(PyTuple_GetItem(parts, 1), nest.context, Py_EQ);
  if (equal != 1) return equal < 0 ? Look::failed : Look::differs;
  PyObject* items = PyTuple_GetItem(parts, 0);
  const bool list = PyList_Check(items) != 0;
  if (!list && PyTuple_Check(items) == 0) return Look::differs;
  const Py_ssize_t count = list ? PyList_Size(items) : PyTuple_Size(items);
  if (count != static_cast<Py_ssize_t>(nest.items.size())) return Look::differs;
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* item = list ? PyList_GetItem(items, i) : PyTuple_GetItem(items, i);
    if (const Look look = unpack(nest.items[static_cast<std::size_t>(i)], item, out); look != Look::fits) return look;
  }
  return Look::fits;
}

/// Comparison of what was given with the captured nest and its scalars; its tensors go into `out`.
inline Look unpack(const Nest& nest, PyObject* given, Unpacked& out) {
  using enum Nest::Kind;
  if (nest.kind == tensor) {
    out.tensors[nest.place] = out.nested ? out.keep_borrowed(given) : given;
    return Look::fits;
  }
  if (nest.kind == scalar) return same_scalar(given, nest.value);
  if (nest.kind == object) return unpack_object(nest, given, out);
  if (nest.kind == node) return unpack_node(nest, given, out);
  const auto count = static_cast<Py_ssize_t>(nest.items.size());
  if (nest.kind == tuple  ? reinterpret_cast<PyObject*>(Py_TYPE(given)) != nest.value || PyTuple_Size(given) != count
      : nest.kind == list ? Py_TYPE(given) != &PyList_Type || PyList_Size(given) != count
                          : Py_TYPE(given) != &PyDict_Type || PyDict_Size(given) != count)
    return Look::differs;
  PyObject *key = nullptr, *entry = nullptr;
  Py_ssize_t position = 0;
  for (std::size_t i = 0; i < nest.items.size(); ++i) {
    const auto at = static_cast<Py_ssize_t>(i);
    PyObject* item = nest.kind == tuple  ? PyTuple_GetItem(given, at)
                     : nest.kind == list ? PyList_GetItem(given, at)
                                         : PyDict_GetItemWithError(given, nest.keys[i]);
    // Who iterates over a dictionary sees its order.
    if (nest.kind == dict && !nest.any_order && item != nullptr) {
      const bool more = PyDict_Next(given, &position, &key, &entry) != 0;
      const int same = !more ? 0 : key == nest.keys[i] ? 1 : PyObject_RichCompareBool(key, nest.keys[i], Py_EQ);
      if (same != 1) return same < 0 ? Look::failed : Look::differs;
    }
    if (item == nullptr) return PyErr_Occurred() != nullptr ? Look::failed : Look::differs;
    if (const Look look = unpack(nest.items[i], item, out); look != Look::fits) return look;
  }
  return Look::fits;
}

/// (name, "same_object" | "equal" | "asked", value), or (name, "counted", first, last).
inline Attribute read_attribute(Reader& read, PyObject* row) {
  Attribute out;
  out.name = read.item(row, 0);
  PyObject* rule = read.item(row, 1);
  const auto is = [&](const char* name) {
    return rule != nullptr && !read.failed() && PyUnicode_CompareWithASCIIString(rule, name) == 0;
  };
  using enum Attribute::Rule;
  out.rule = is("equal") ? equal : is("counted") ? counted : is("asked") ? asked : same_object;
  if (out.rule == counted) {
    out.first = read.number(read.item(row, 2));
    out.last = read.number(read.item(row, 3));
  } else {
    out.value = read.item(row, 2);
  }
  return out;
}

/// ("tensor", place), ("scalar", value), ("list", [item, …]), ("tuple", [item, …], class), ("dict" | "names", [item,
/// …], [key, …]), ("object", [item, …], [key, …], class, [attribute, …], a function of it or None), or ("node", [item,
/// …], context, class, a function of it).
inline Nest read_nest(Reader& read, PyObject* row, std::size_t tensors) {
  Nest out;
  PyObject* kind = read.item(row, 0);
  const auto is = [&](const char* name) {
    return kind != nullptr && !read.failed() && PyUnicode_CompareWithASCIIString(kind, name) == 0;
  };
  if (is("tensor")) {
    out.place = static_cast<std::size_t>(read.number(read.item(row, 1)));
    if (out.place >= tensors && !read.failed()) PyErr_SetString(PyExc_ValueError, "a tensor beyond the last");
    return out;
  }
  if (is("scalar")) {
    out.kind = Nest::Kind::scalar;
    out.value = read.item(row, 1);
    return out;
  }
  using enum Nest::Kind;
  out.kind = is("tuple") ? tuple : is("list") ? list : is("object") ? object : is("node") ? node : dict;
  PyObject* items = read.item(row, 1);
  out.any_order = is("names");
  PyObject* keys = out.kind == dict || out.kind == object ? read.item(row, 2) : nullptr;
  if (out.kind == tuple) out.value = read.item(row, 2);
  if (out.kind == object || out.kind == node) out.value = read.item(row, 3);
  if (out.kind == object) {
    PyObject* rows = read.item(row, 4);
    for (Py_ssize_t i = 0; i < read.size(rows); ++i) out.attributes.push_back(read_attribute(read, read.item(rows, i)));
    PyObject* parts = read.item(row, 5);
    out.parts = parts == Py_None ? nullptr : parts;
  }
  if (out.kind == node) {
    out.context = read.item(row, 2);
    out.parts = read.item(row, 4);
  }
  for (Py_ssize_t i = 0; i < read.size(items); ++i) {
    out.items.push_back(read_nest(read, read.item(items, i), tensors));
    if (keys != nullptr) out.keys.push_back(read.item(keys, i));
  }
  return out;
}

/// Counts how often each tensor's place stands in the tree.
inline void count_places(const Nest& nest, std::vector<int>& counts) {
  if (nest.kind == Nest::Kind::tensor) ++counts[nest.place];
  for (const Nest& item : nest.items) count_places(item, counts);
}

}  // namespace planish_call
