#include "session/said_once.h"

#include <doctest/doctest.h>

using namespace planish::session;

TEST_CASE("what is said of several things for one reason is said once, with how many they are") {
  SaidOnce said;
  said.add("region r1: no kernel fits", "r1");
  said.add("its data cannot be made", "r2");
  for (const char* name : {"r3", "r4", "r5", "r13"}) said.add(std::string("region ") + name + ": no kernel fits", name);
  CHECK(said.lines("region", "is left as it is", "are left as they are") ==
        std::vector<std::string>{"5 regions (r1, r3, r4, r5, …) are left as they are: no kernel fits",
                                 "region r2 is left as it is: its data cannot be made"});
  CHECK(SaidOnce().lines("region", "is", "are").empty());
}
