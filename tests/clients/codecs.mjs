// What hosts make of URIs, by their own packages: the SDKs' UriTemplate, and vscode-uri.
import { UriTemplate as UriTemplate1 } from '@modelcontextprotocol/sdk/shared/uriTemplate.js';
import { UriTemplate as UriTemplate2 } from '@modelcontextprotocol/client';
import { URI } from 'vscode-uri';

// VS Code keeps a resource under a URI of its own, and asks with a URL made from that
// (McpResourceURI in src/vs/workbench/contrib/mcp/common/mcpTypes.ts).
const scheme = 'mcp-resource';
const noAuthority = 'dylo78gyp';

function wrapped(uri) {
    const parsed = URI.parse(uri);
    const path = ['', parsed.scheme, parsed.authority || noAuthority].join('/') + parsed.path;
    return parsed.with({ scheme, authority: Buffer.from('mcp.config.usrlocal.project').toString('hex'), path });
}

function unwrapped(uri) {
    const [, serverScheme, authority, ...path] = uri.path.split('/');
    const url = new URL(`${serverScheme}://${authority.toLowerCase() === noAuthority ? '' : authority}`);
    url.pathname = path.length ? `/${path.join('/')}` : '';
    url.search = uri.query;
    url.hash = uri.fragment;
    return url.toString();
}

// The expansion of {+x} in src/vs/workbench/contrib/mcp/common/uriTemplate.ts.
const expanded = (template, variables) =>
    template.replace(/\{(\+?)(\w+)\}/g, (_, reserved, name) =>
        (reserved ? encodeURI : encodeURIComponent)(variables[name]));

const ofUris = {
    'VS Code: listed': uri => unwrapped(wrapped(uri)),
    'VS Code: restored': uri => unwrapped(URI.parse(wrapped(uri).toString())),
    'VS Code: attached': uri => wrapped(uri).toString(),
    'VS Code: attached, not encoded': uri => wrapped(uri).toString(true),
    'URL': uri => new URL(uri).toString(),
};
const ofTemplates = {
    'SDK 1': (template, variables) => new UriTemplate1(template).expand(variables),
    'SDK 2': (template, variables) => new UriTemplate2(template).expand(variables),
    'VS Code: picked': (template, variables) => unwrapped(wrapped(expanded(template, variables))),
    'filled in': (template, variables) => template.replace(/\{\+?(\w+)\}/g, (_, name) => variables[name]),
};

const { uris, expansions } = JSON.parse(process.argv[2]);
const every = (codecs, all, call) =>
    Object.fromEntries(Object.entries(codecs).map(([name, codec]) => [name, all.map(each => call(codec, each))]));
console.log(JSON.stringify({
    ...every(ofUris, uris, (codec, uri) => codec(uri)),
    ...every(ofTemplates, expansions, (codec, { template, variables }) => codec(template, variables)),
}));
