"""Rules of single resources: metadata, content, templates, completion, absence, skills."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import cast

import msgspec

from resource_server import uris
from resource_server.errors import (
    InvalidParameter,
    NotACollection,
    ResourceError,
    ResourceNotFound,
    ResourceTooLarge,
)
from resource_server.provider import (
    Content,
    Path,
    Resource,
    SupportsCheck,
    SupportsComplete,
    SupportsFetch,
    Template,
)
from resource_server.provider.skills import SKILL_FILE, Skill, SkillFile, SupportsSkills
from resource_server.testing.provider_calls import Calls, brief, is_below

_MAX_COMPLETED = 24
_ENCODINGS = ("utf-8", "utf-8-sig", "utf-16", "utf-32")
_QUERY = re.compile(r"\{[?&][^}]*\}|\?.*")
_ABSENT = (
    "no-such-3f9c",
    "no-such-3f9c" * 1000,
    "no-such-3f9c\udcff\udc80",
    "no-such-3f9c\n\r\t\x1b[31m\x7f",
    "no-such-3f9c\u202e\U0001f642e\u0301",
    "..\\no-such-3f9c",
    "%2e%2e%2fno-such-3f9c",
    "C:no-such-3f9c",
    "~no-such-3f9c",
    "no-such-3f9c' OR '1'='1",
    "*no-such-3f9c?[a-z]{x}",
)
_MAX_HIDDEN = 24
_ABSENT_PATH: Path = ("no-such-3f9c",)
_ABSENT_SKILL: Path = (*_ABSENT_PATH, SKILL_FILE)
_SKILLS_PAGE = 2
_MAX_SKILLS = 50
_MAX_FILES = 512
_MAX_BYTES = 16 * 1024 * 1024


async def check_resource(calls: Calls, resource: Resource) -> None:
    """Check one entry of a listing, and its metadata."""
    place = brief(resource.path)
    if not resource.name:
        calls.broken("a resource has a name", f"{place} has none")
    modified = resource.last_modified
    if isinstance(modified, datetime) and modified.tzinfo is None:
        calls.broken("last_modified has a time zone", f"{place} has {modified}")
    if resource.size is not None and (resource.size < 0 or resource.type == "collection"):
        calls.broken("only documents have a size, of 0 or more", f"{place} has {resource.size}")
    try:
        msgspec.json.encode(resource.details)
    except (TypeError, ValueError) as error:
        calls.broken("details can be encoded as JSON", f"{place}: {error}")
    metadata = await calls.metadata(resource.path)
    if not isinstance(metadata, Resource):
        calls.broken("every listed resource has metadata", f"metadata({place}) gave {metadata!r}")
        return
    for field in resource.__struct_fields__:
        entry, told = getattr(resource, field), getattr(metadata, field)
        # Facts too costly for a listing may be added.
        if told != entry and entry not in (None, ()):
            rule = "metadata agrees with the listing"
            calls.broken(rule, f"{field} of {place} is {told!r}, in the listing {entry!r}")
    if await calls.metadata(resource.path) != metadata:
        calls.broken(
            "metadata stays the same while nothing changes",
            f"metadata({place}) gave different results",
        )


async def check_document(calls: Calls, document: Resource, *, readable: bool) -> None:
    """Read one document whole, past a truncation, in all formats, and with an unknown parameter."""
    place = brief(document.path)
    listing = await calls.list(document.path, limit=1)
    if not isinstance(listing, NotACollection):
        calls.broken("listing a document raises NotACollection", f"list({place}) gave {listing!r}")
    contents = await calls.read(document.path)
    if not readable:
        if not isinstance(contents, ResourceNotFound):
            rule = "reading an unreadable document raises ResourceNotFound"
            calls.broken(rule, f"read({place}) gave {brief(contents)}")
        return
    if isinstance(contents, InvalidParameter):
        return  # it requires parameters
    if isinstance(contents, ResourceTooLarge):
        contents = await calls.read(document.path, contents.next)
    if not isinstance(contents, Sequence) or not contents:
        calls.broken("a document has at least one content", f"read({place}) gave {contents!r}")
        return
    for content in contents:
        await _check_content(calls, document, content)
    _check_size(calls, document, contents[0])
    await _check_queries(calls, document)


async def _check_queries(calls: Calls, document: Resource) -> None:
    place = brief(document.path)
    unknown = await calls.read(document.path, {"no-such-3f9c": "1"})
    if not isinstance(unknown, InvalidParameter):
        rule = "an unknown URI parameter raises InvalidParameter"
        calls.broken(rule, f"read({place}, {{'no-such-3f9c': '1'}}) gave {brief(unknown)}")
    metadata = await calls.metadata(document.path)
    for format in metadata.formats if isinstance(metadata, Resource) else ():
        found = await calls.read(document.path, {"format": format.name})
        if not isinstance(found, Sequence):
            calls.broken("every format can be read", f"{format.name} of {place} gave {found!r}")


async def _check_content(calls: Calls, document: Resource, content: Content) -> None:
    place = brief(document.path)
    data = cast("object", content.data)
    if not isinstance(data, str | bytes):
        calls.broken("data is str or bytes", f"{place} has {brief(data)}")
    elif isinstance(data, str) and uris.display(data) != data:
        calls.broken("text has no lone surrogates", f"{place} has some")
    if content.truncated is not None and content.truncated.next is not None:
        query = content.truncated.next
        following = await calls.read(document.path, query)
        if not isinstance(following, Sequence) or not following:
            rule = "the rest of truncated content can be read"
            calls.broken(rule, f"read({place}, {dict(query)}) gave {following!r}")


def _check_size(calls: Calls, document: Resource, content: Content) -> None:
    data = cast("object", content.data)
    if document.size is None or content.truncated is not None:
        return
    sizes: set[int] = set()
    if isinstance(data, bytes):
        sizes = {len(data)}
    elif isinstance(data, str):
        # A size may be that of the stored text: with a byte order mark, or in an 8-bit encoding.
        sizes = {len(data.encode(encoding, "surrogatepass")) for encoding in _ENCODINGS}
        sizes.add(len(data))
    if sizes and document.size not in sizes:
        rule = "a size is the number of bytes of the body"
        calls.broken(rule, f"{brief(document.path)} has {document.size}, its body {min(sizes)}")


async def check_absent(calls: Calls, resources: Sequence[Resource]) -> None:
    """Request absent paths below the mount, a collection and a document."""
    parents: list[Path] = [()]
    parents += [resource.path for resource in resources if resource.type == "collection"][:1]
    documents = [resource.path for resource in resources if resource.type == "document"]
    absent: list[Path] = [(*parent, name) for parent in parents for name in _ABSENT]
    absent += [(*document, _ABSENT[0]) for document in documents[:1]]
    absent.append((_ABSENT[0],) * 1000)
    for path in absent:
        for method, found in (
            ("list", await calls.list(path, limit=1)),
            ("metadata", await calls.metadata(path)),
            ("read", await calls.read(path)),
        ):
            if found is not None and not isinstance(found, ResourceNotFound):
                rule = "an absent path raises ResourceNotFound"
                calls.broken(rule, f"{method}({brief(path)}) gave {brief(found)}")


def check_templates(calls: Calls) -> None:
    """Check the templates themselves."""
    seen: set[str] = set()
    for template in calls.provider.templates:
        if not isinstance(cast("object", template), Template) or not template.name:
            calls.broken("a template is a Template with a name", brief(template))
            continue
        try:
            uris.template_variables(template.uri_template)
        except ValueError as error:
            rule = "a template uses only {x}, {+x}, {?x,y} and {&x,y} of RFC 6570"
            calls.broken(rule, f"{template.uri_template!r}: {error}")
        if template.uri_template in seen:
            calls.broken("no two templates have the same URI template", repr(template.uri_template))
        seen.add(template.uri_template)


async def check_completion(calls: Calls) -> None:
    """Complete every variable of every template, and check that the suggestions exist."""
    completes = calls.provider
    if not isinstance(completes, SupportsComplete):
        return
    for template in completes.templates:
        try:
            variables = uris.template_variables(template.uri_template)
        except ValueError:
            continue  # reported by check_templates
        given: dict[str, str] = {}
        for variable, operator in variables.items():
            for hostile in _ABSENT:
                await calls.call("complete", variable, hostile, given=given)
            values = await calls.sequence("complete", variable, "", given=given)
            if operator in ("", "+") and values:
                given[variable] = values[0]
                for value in values[:_MAX_COMPLETED]:
                    await _check_suggested(calls, template.uri_template, {**given, variable: value})
        for parameter in template.optional:
            await calls.call("complete", parameter, "", given=given)


async def _check_suggested(calls: Calls, form: str, values: Mapping[str, str]) -> None:
    filled = _QUERY.sub("", form)
    for name, value in values.items():
        filled = filled.replace(f"{{{name}}}", uris.quote_segment(value))
        filled = filled.replace(f"{{+{name}}}", uris.quote_path(value))
    if "{" in filled:
        return  # other variables are still open
    try:
        found = await calls.metadata(uris.parse(f"check://mount/{filled}").path)
    except ResourceNotFound as error:
        found = error
    if not isinstance(found, Resource):
        calls.broken(
            "completions name existing resources",
            f"{filled!r}, suggested for {form!r}, gave {found!r}",
        )


async def check_fetch(calls: Calls, resources: Sequence[Resource]) -> None:
    """Compare the optional `fetch` with `metadata` and `read`."""
    fetches = calls.provider
    if not isinstance(fetches, SupportsFetch):
        return
    for resource in resources:
        path = resource.path
        metadata = await calls.metadata(path)
        is_document = resource.type == "document"
        for query in ({}, {"no-such-3f9c": "1"}) if is_document else ({},):
            found: tuple[Resource, Sequence[Content]] | ResourceError | None
            found = await calls.call("fetch", path, query)
            read = await calls.read(path, query) if is_document else ()
            if isinstance(read, ResourceError):
                same = type(found) is type(read)
            else:
                told = [metadata, *(read or ())]
                same = isinstance(found, tuple) and [found[0], *found[1]] == told
            if not same:
                rule = "fetch gives the same as metadata and read"
                calls.broken(rule, f"fetch({brief(path)}, {query}) gave {brief(found)}")
    found = await calls.call("fetch", _ABSENT_PATH, {})
    if found is not None and not isinstance(found, ResourceNotFound):
        rule = "an absent path raises ResourceNotFound"
        calls.broken(rule, f"fetch({brief(_ABSENT_PATH)}) gave {brief(found)}")


async def check_operator(calls: Calls, resources: Sequence[Resource]) -> None:
    """Call the optional `hides`, `explain` and `warnings`, and look for hidden paths."""
    if not isinstance(calls.provider, SupportsCheck):
        return
    for limit in (1, _MAX_HIDDEN):
        for path, _ in await calls.sequence("hides", limit=limit):
            found = await calls.metadata(path)
            if found is not None and not isinstance(found, ResourceNotFound):
                rule = "hidden paths raise ResourceNotFound"
                calls.broken(rule, f"metadata({brief(path)}) gave {brief(found)}")
    for path in [(), *(resource.path for resource in resources), _ABSENT_PATH]:
        await calls.call("explain", path)
    for thorough in (False, True):
        await calls.call("warnings", thorough=thorough)


async def check_skills(calls: Calls) -> None:
    """List all skills, and read every file of them."""
    if not isinstance(calls.provider, SupportsSkills):
        return
    skills: list[Skill] = []
    while len(skills) < _MAX_SKILLS:
        after = skills[-1].path if skills else None
        page = await calls.sequence("list_skills", after=after, limit=_SKILLS_PAGE)
        known = {skill.path for skill in skills}
        if any(skill.path in known for skill in page):
            calls.broken("list_skills returns each skill once", f"after={brief(after)}")
            break
        skills += page
        if len(page) < _SKILLS_PAGE:
            break
    for skill in skills:
        found = await calls.call("get_skill", skill.path)
        if found is not None and found != skill:
            rule = "get_skill returns what list_skills does"
            calls.broken(rule, f"get_skill({brief(skill.path)}) gave {brief(found)}")
        await _check_skill(calls, skill)
    found = await calls.call("get_skill", _ABSENT_SKILL)
    if found is not None and not isinstance(found, ResourceNotFound):
        rule = "an absent path raises ResourceNotFound"
        calls.broken(rule, f"get_skill({brief(_ABSENT_SKILL)}) gave {brief(found)}")


async def _check_skill(calls: Calls, skill: Skill) -> None:
    path, name = skill.path, skill.frontmatter.get("name")
    if path[-1:] != (SKILL_FILE,) or (len(path) > 1 and name != path[-2]):
        rule = f"a skill is a {SKILL_FILE} in a collection of its name"
        calls.broken(rule, f"{brief(path)} has the name {name!r}")
    if not isinstance(skill.frontmatter.get("description"), str):
        calls.broken("a skill has a description", brief(path))
    metadata = await calls.metadata(path)
    if not isinstance(metadata, Resource) or metadata.type != "document":
        calls.broken(f"the {SKILL_FILE} of a skill is a document", f"{brief(path)}")
    if skill.files is not None:
        await _check_files(calls, skill, skill.files)


async def _check_files(calls: Calls, skill: Skill, files: Sequence[SkillFile]) -> None:
    paths = [file.path for file in files]
    if len(set(paths)) < len(paths) or skill.path not in paths:
        rule = f"the files of a skill are its {SKILL_FILE} and others, each once"
        calls.broken(rule, f"{brief(skill.path)} has {brief(paths)}")
    if len(files) > _MAX_FILES or sum(file.size for file in files) > _MAX_BYTES:
        calls.broken("a skill has at most 512 files and 16 MiB", brief(skill.path))
    for file in files:
        if not is_below(file.path, [skill.path[:-1]]):
            calls.broken("the files of a skill are below its collection", brief(file.path))
        contents = await calls.read(file.path)
        if not isinstance(contents, Sequence) or not contents or not _covers(file, contents[0]):
            rule = "the digest of a file is that of the bytes that a read returns"
            calls.broken(rule, f"{brief(file.path)} has {file.digest} and {file.size} bytes")


def _covers(file: SkillFile, content: Content) -> bool:
    data = content.data.encode() if isinstance(content.data, str) else content.data
    digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
    return (digest, len(data)) == (file.digest, file.size)
