import assert from "node:assert/strict";
import { createServer } from "node:http";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { describe, it } from "node:test";
import { gzipSync } from "node:zlib";
import { RunCancelledError } from "gantry";
import { htmlToText } from "../../../../src/untrusted/html/html-text.js";
import { isPublicAddress } from "../../../../src/tools/web/public-address.js";
import { webfetchTool } from "../../../../src/tools/web/webfetch.js";
import { waitUntil } from "../../../helpers/server-runs.js";
import { callTool, createToolContext } from "../../../helpers/tool-context.js";

async function startServer(respond: (request: IncomingMessage, response: ServerResponse) => void) {
  const requests: string[] = [];
  const server = createServer((request, response) => {
    requests.push(request.url!);
    respond(request, response);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    port,
    requests,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

const privateTool = webfetchTool({ allowPrivate: true });
const publicTool = webfetchTool({ allowPrivate: false });
const fetchText = async (url: string, args: object = {}) =>
  (await callTool(privateTool, { url, ...args }, createToolContext("/"))).text;

function sendResponse(
  response: ServerResponse,
  type: string,
  body: string | Buffer,
  headers: Record<string, string> = {},
  status = 200,
): void {
  response.writeHead(status, { "content-type": type, ...headers }).end(body);
}

describe("webfetch", () => {
  it("returns HTML as text, other text unchanged, and HTTP errors with the text of the page", async () => {
    await using server = await startServer((request, response) => {
      if (request.url === "/page")
        sendResponse(
          response,
          "text/html; charset=iso-8859-1",
          Buffer.from("<title>T &amp; t</title><p>caf\xe9 <a href='/x'>link</a>", "latin1"),
        );
      else if (request.url === "/gzip")
        sendResponse(response, "text/html", gzipSync("<h1>Zip</h1>"), { "content-encoding": "gzip" });
      else if (request.url === "/json") sendResponse(response, "application/json", '{"a":1}');
      else if (request.url === "/pdf") sendResponse(response, "application/pdf", "%PDF-1.7\0");
      else if (request.url === "/empty") sendResponse(response, "text/html", "<script>app()</script>");
      else if (request.url === "/escape") sendResponse(response, "text/plain", "\u001b[2Jgone\u202e\u0007", {}, 500);
      else sendResponse(response, "text/html", "<h1>No such page</h1>", {}, 404);
    });
    assert.equal(await fetchText(`${server.url}/page`), `# T & t\n\ncafé [link](${server.url}/x)`);
    assert.match(await fetchText(`${server.url}/page`, { raw: true }), /^<title>/);
    assert.equal(await fetchText(`${server.url}/gzip`), "# Zip");
    assert.equal(await fetchText(`${server.url}/json`), '{"a":1}');
    await assert.rejects(fetchText(`${server.url}/pdf`), /is a PDF document/);
    assert.match(await fetchText(`${server.url}/empty`), /has no text. It may need a browser/);
    await assert.rejects(fetchText(`${server.url}/gone`), /HTTP 404 Not Found \(# No such page\)/);
    await assert.rejects(fetchText(`${server.url}/escape`), {
      message: `${server.url}/escape: HTTP 500 Internal Server Error (\\u001b[2Jgone\\u202e\\u0007). Check the address, or try another.`,
    });
    await assert.rejects(fetchText("http://host.invalid/"), /host not found|EAI_AGAIN/);
  });

  it("returns a long text in pages, and fetches at most 5 MiB", async () => {
    const longText = Array.from({ length: 5000 }, (_, i) => `line ${i}`).join("\n");
    await using server = await startServer((request, response) => {
      if (request.url === "/long") return sendResponse(response, "text/plain", longText);
      response.writeHead(200, { "content-type": "text/plain" });
      const sendMore = (): void => {
        while (response.write("x".repeat(65_536)));
        if (!response.destroyed) response.once("drain", sendMore);
      };
      sendMore();
    });
    const firstPage = await fetchText(`${server.url}/long`);
    const continuation = /\[characters 0-(\d+) of 48889; continue with offset \1\]$/.exec(firstPage);
    assert.ok(continuation, firstPage.slice(-100));
    const secondPage = await fetchText(`${server.url}/long`, { offset: continuation[1] });
    assert.equal(`${firstPage.replace(/\n\[characters.*$/, "")}\n${secondPage}`, longText);
    const endlessText = await fetchText(`${server.url}/endless`);
    assert.match(endlessText, /of 5242880; [^]*\[only the first 5 MiB were fetched\]$/);
  });

  it("limits the decompressed bytes and the number of content encodings", async () => {
    const compressedBody = gzipSync(Buffer.alloc(40_000_000, 97));
    const compressRepeatedly = (compressionCount: number) =>
      Array.from({ length: compressionCount }).reduce<Buffer>((body) => gzipSync(body), compressedBody);
    await using server = await startServer((request, response) => {
      const compressionCount = Number(request.url!.slice(1));
      if (request.url === "/pieces") {
        response.writeHead(200, { "content-type": "text/plain" });
        for (const letter of "in single letters".split("")) response.write(letter);
        response.end();
      } else
        sendResponse(response, "text/plain", compressRepeatedly(compressionCount), {
          "content-encoding": Array(compressionCount + 1)
            .fill("gzip")
            .join(", "),
        });
    });
    for (const compressionCount of [0, 2])
      assert.match(
        await fetchText(`${server.url}/${compressionCount}`),
        /of 5242880; [^]*\[only the first 5 MiB were fetched\]$/,
      );
    await assert.rejects(fetchText(`${server.url}/9`), /too many content-encodings/);
    assert.equal(await fetchText(`${server.url}/pieces`), "in single letters");
  });

  it("follows at most 5 redirects, only to http and https, and reports the final address", async () => {
    await using server = await startServer((request, response) => {
      const remainingRedirects = Number(request.url!.slice(1));
      if (request.url === "/file") response.writeHead(302, { location: "file:///etc/passwd" }).end();
      else if (remainingRedirects > 0) response.writeHead(302, { location: `/${remainingRedirects - 1}` }).end();
      else sendResponse(response, "text/plain", "there");
    });
    assert.equal(await fetchText(`${server.url}/5`), `there\n[redirected to ${server.url}/0]`);
    await assert.rejects(fetchText(`${server.url}/6`), /more than 5 redirects/);
    await assert.rejects(fetchText(`${server.url}/file`), /not an http or https address/);
  });

  it("rejects private addresses in every notation, and other URL schemes", async () => {
    await using server = await startServer((_, response) => sendResponse(response, "text/plain", "SECRET"));
    const decimalAddress = (127 * 2 ** 24 + 1).toString();
    for (const host of [
      "127.0.0.1",
      "localhost",
      "[::1]",
      "[::ffff:127.0.0.1]",
      "0.0.0.0",
      "127.1",
      decimalAddress,
      "0x7f000001",
      "127.0.0.1.",
      "169.254.169.254",
      "10.0.0.1",
    ])
      await assert.rejects(
        callTool(publicTool, { url: `http://${host}:${server.port}/` }, createToolContext("/")),
        /not on the public internet.*allow_private/,
        host,
      );
    assert.deepEqual(server.requests, []);
    for (const url of [
      "file:///etc/passwd",
      "ftp://x/",
      "nonsense",
      "data:text/plain,x",
      "http://user:pass@example.com/",
    ])
      assert.throws(() => publicTool.parse({ url }), { code: "tool_input" });
  });

  it("stops when the run is cancelled or the timeout expires", async () => {
    await using server = await startServer(() => undefined);
    const controller = new AbortController();
    const reason = new RunCancelledError();
    const rejection = assert.rejects(
      callTool(privateTool, { url: server.url }, createToolContext("/", { signal: controller.signal })),
      reason,
    );
    await waitUntil(() => server.requests.length > 0);
    controller.abort(reason);
    await rejection;
    await assert.rejects(
      callTool(webfetchTool({ allowPrivate: true, timeoutMs: 50 }), { url: server.url }, createToolContext("/")),
      /the request timed out/,
    );
  });
});

it("isPublicAddress() is true only for public addresses", () => {
  for (const address of ["8.8.8.8", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"])
    assert.equal(isPublicAddress(address), true, address);
  for (const address of [
    "127.0.0.1",
    "10.1.2.3",
    "172.16.0.1",
    "192.168.1.1",
    "169.254.169.254",
    "100.64.0.1",
    "0.0.0.0",
    "224.0.0.1",
    "255.255.255.255",
    "192.0.2.1",
    "198.18.0.1",
    "::1",
    "::",
    "fe80::1",
    "fe80::1%eth0",
    "fd00::1",
    "::ffff:10.0.0.1",
    "64:ff9b::7f00:1",
    "2002:7f00:1::",
    "",
    "x",
  ])
    assert.equal(isPublicAddress(address), false, address);
});

describe("htmlToText()", () => {
  const toText = async (html: string) => (await htmlToText(html, "https://example.com/docs/")).text;

  it("keeps the visible content of a page", async () => {
    assert.equal(
      await toText(`<html><head><title>T</title><style>x{}</style><body><svg><title>no</title></svg>
        <h1>Head  <em>line</em></h1><p>One&nbsp;two<br>three &lt;b&gt; <code>x = 1</code>.</p>
        <ul><li>a<li>b<ul><li>c</ul></ul><ol start=3><li>d</ol>
        <pre>  keep\n    this</pre><table><tr><th>k<th>v<tr><td>1<td>2</table>
        <a href="../up?x=1#y">up</a> <a href="#z">here</a> <a href="javascript:x()">js</a> <img alt="A pic" src=x><script>no()</script>`),
      "# Head line\n\nOne two\nthree <b> `x = 1`.\n\n- a\n- b\n  - c\n\n3. d\n\n```\n  keep\n    this\n```\n\nk | v\n1 | 2\n\n" +
        "[up](https://example.com/up?x=1#y) here js ![A pic]",
    );
  });

  it("keeps the text of elements that are nested too deeply, and the text after them", async () => {
    // The parser limits the depth to 512.
    for (const depth of [10, 511, 512, 513, 2_000]) {
      const html = `${"<div>".repeat(depth)}deep <b>in</b> <a href=/x>it</a>${"</div>".repeat(depth)}<p>behind <a href=/y>it</a>`;
      assert.match(await toText(html), /^deep in .*it.*\n\nbehind \[it\]\(https:\/\/example.com\/y\)$/, `${depth}`);
    }
  });

  it("truncates the text of a page at 5 MiB", async () => {
    const longPage = await htmlToText("<p>word ".repeat(1_000_000), "https://example.com/");
    assert.deepEqual(
      [longPage.isTruncated, longPage.text.length <= 5 * 1024 * 1024, longPage.text.startsWith("word\n\nword")],
      [true, true, true],
    );
    const linkPage = await htmlToText("<a href=y>x</a> ".repeat(300_000), `https://example.com/${"x/".repeat(200)}`);
    assert.equal(linkPage.isTruncated, true);
  });

  it("converts extremely nested and malformed HTML", async () => {
    await toText("<div>".repeat(900_000) + "</x>".repeat(100_000));
    await toText(`<p ${"a='b' ".repeat(100_000)}>`);
    await toText("<svg><title>".repeat(100_000));
    await toText("&amp;".repeat(100_000));
    assert.equal(await toText(`${"<div>".repeat(200_000)}deep`), "deep");
    assert.equal(await toText("<ul><li>".repeat(2_000) + "x").then((output) => output.includes("x")), true);
    await toText("<a <b <c &#xFFFFFFF; &bogus; </p></p></ul></pre><![CDATA[ <!-- ");
    await toText("<".repeat(100_000));
  });
});
