from __future__ import annotations

import pytest

from resource_server.buckets.location import (
    addresses_of,
    check_endpoint,
    is_address,
    is_object_url,
    parse_location,
    refuse_link_local,
)
from resource_server.errors import MountUnavailable
from tests.cases import for_each


@for_each(
    "url",
    [
        *("s3:", "s3://", "s3:///a", "file:///a", "s3://ab", "s3://a b", "s3://-ab", "s3://büro"),
        *("s3://abc//", "s3://abc//a", "s3://abc/a//", "s3://abc/../b", "s3://abc/./b"),
        *("s3://abc/a\nb", "s3://abc/\udce4", f"s3://{'a' * 256}", "s3://abc\n"),
    ],
)
def test_a_url_that_names_no_bucket_or_an_odd_prefix_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"^path: "):
        parse_location(url)


def test_a_prefix_ends_where_a_segment_does() -> None:
    assert is_object_url("S3://abc")
    assert parse_location("S3://abc/") == ("abc", "")
    assert parse_location("s3://abc/x/y") == parse_location("s3://abc/x/y/") == ("abc", "x/y/")
    assert parse_location("s3://abc/x/y").name == "y"
    assert parse_location("s3://abc").name == "abc"


@for_each(
    "endpoint",
    [
        *("", "storage.example.com", "ftp://h", "https://", "https://:9000", "http://h:0"),
        *("http://h:65536", "http://[::1", "https://h/?a=b", "https://h/#a", "https://@h"),
        *("https://me:geheim@h", "https://h\\@i", "https://a b", " https://h", "https://h\n.i"),
    ],
)
def test_an_endpoint_is_a_scheme_a_host_a_port_and_a_path(endpoint: str) -> None:
    with pytest.raises(ValueError, match=r"^endpoint: ") as caught:
        check_endpoint(endpoint)
    assert "geheim" not in str(caught.value)
    check_endpoint("HTTPS://storage.example.com:65535/minio")


@for_each(
    "address",
    [
        *("169.254.169.254", "::ffff:169.254.169.254", "fe80::1%eth0", "fd00:ec2::254"),
        *("100.100.100.200", "fd20:ce::254"),  # of Alibaba and of Google
    ],
)
def test_addresses_at_which_clouds_give_credentials_are_refused(address: str) -> None:
    with pytest.raises(MountUnavailable, match=r"'storage'.*clouds give credentials") as caught:
        refuse_link_local("storage", ["192.0.2.1", address])
    assert not caught.value.is_temporary
    refuse_link_local("storage", ["192.0.2.1", "::1", "100.100.100.201"])


@for_each("host", ["2852039166", "0xa9.254.43518", "169.254.169.254\0.example.com"])
def test_a_number_that_is_looked_up_as_an_address_counts_as_a_name(host: str) -> None:
    assert not is_address(host)
    with pytest.raises(MountUnavailable):
        refuse_link_local(host, addresses_of(host))
    assert is_address("169.254.169.254")
    assert is_address("[fe80::1%eth0]")
