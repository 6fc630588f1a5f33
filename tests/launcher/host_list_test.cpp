#include "launcher/host_list.h"

#include <gmock/gmock.h>

#include "horo/base/error.h"

namespace horo {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

std::string host_list_error(const std::string& text) {
  try {
    parse_host_list(text);
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "no error";
}

std::string hostfile_error(const std::string& text) {
  try {
    parse_hostfile(text, "hosts.txt");
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "no error";
}

TEST(HostList, ReadsHostsAndSlots) {
  EXPECT_THAT(parse_host_list("a:4,node-2.example.org:1,c"),
              ElementsAre(Host{"a", 4}, Host{"node-2.example.org", 1}, Host{"c", 1}));
}

TEST(HostList, ErrorsShowCorrectForm) {
  for (const char* text : {"a:b", "a::2", "a:", "a:0", "a:-1", "a:1x", "a:99999999999"})
    EXPECT_THAT(host_list_error(text), HasSubstr("such as a:4")) << text;
  for (const char* text : {"", ",", "a,,b", "a,"})
    EXPECT_THAT(host_list_error(text), HasSubstr("a host is missing")) << text;
  EXPECT_THAT(host_list_error("a b:2"), HasSubstr("'a b' is not a host name"));
  EXPECT_THAT(host_list_error(":2"), HasSubstr("not a host name"));
  EXPECT_THAT(host_list_error("a:2,b:1,a:2"), HasSubstr("'a' is named twice"));
}

TEST(HostList, RefusesIpv6Address) {
  for (const char* text : {"[::1]:2", "[fe80::1]", "fe80::1:2:3"})
    EXPECT_THAT(host_list_error(text), HasSubstr("IPv6")) << text;
  EXPECT_THAT(hostfile_error("[::1] slots=2\n"), HasSubstr("IPv6"));
}

TEST(Hostfile, ReadsCommentsAndBothSpellings) {
  const auto hosts = parse_hostfile(
      "# the cluster\n\n  a slots=4\r\nb\tslots=2 max_slots=8   # the big one\nc max-slots=3\nd",
      "hosts.txt");
  EXPECT_THAT(hosts, ElementsAre(Host{"a", 4}, Host{"b", 2}, Host{"c", std::nullopt},
                                 Host{"d", std::nullopt}));
}

TEST(Hostfile, ErrorsBeginWithFileAndLine) {
  EXPECT_THAT(hostfile_error("a slots=2\n# x\nb slots=two\n"),
              StartsWith("hosts.txt:3: 'slots=two'"));
  EXPECT_THAT(hostfile_error("\n\na slot=2\n"), StartsWith("hosts.txt:3: 'slot=2' is not known"));
  EXPECT_THAT(hostfile_error("a slots\n"), StartsWith("hosts.txt:1: 'slots' needs a number"));
  EXPECT_THAT(hostfile_error("a:4\n"), StartsWith("hosts.txt:1: 'a:4' is not a host name"));
  EXPECT_THAT(hostfile_error("a slots=1\na slots=1\n"),
              StartsWith("hosts.txt:2: 'a' is named twice"));
  EXPECT_THAT(hostfile_error("# nothing\n"), HasSubstr("hosts.txt names no host"));
  EXPECT_THAT(hostfile_error(""), HasSubstr("hosts.txt is empty"));
  EXPECT_THAT(hostfile_error("\n \n"), HasSubstr("hosts.txt is empty"));
}

TEST(Hosts, TotalIsUnknownIfOneHostIs) {
  EXPECT_EQ(total_slots(parse_host_list("a:4,b:2")), 6);
  EXPECT_EQ(total_slots(parse_hostfile("a slots=4\nb\n", "f")), std::nullopt);
}

TEST(Hosts, BusiestHostIsFilledInOrder) {
  EXPECT_EQ(ranks_on_busiest_host({}, 7, 2), 7);
  const auto hosts = parse_host_list("a:4,b:2");
  EXPECT_EQ(ranks_on_busiest_host(hosts, 3, 8), 3);
  EXPECT_EQ(ranks_on_busiest_host(hosts, 6, 8), 4);
  EXPECT_EQ(ranks_on_busiest_host(hosts, 10, 8), 6);  // four do not fit: two more for each
  EXPECT_EQ(ranks_on_busiest_host(parse_hostfile("a\nb\n", "f"), 6, 4), 4);
}

}  // namespace
}  // namespace horo
