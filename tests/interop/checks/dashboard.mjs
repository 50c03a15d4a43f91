// A browser that looks at the page of `mcpd dashboard`. Prints a line of JSON for each check, and waits for a line on standard input where the
// caller has to do something in between.
//
// usage: node dashboard.mjs INSTALLED CHROMIUM ADDRESS

import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const [installed, executablePath, address] = process.argv.slice(2);
// A dependency of @playwright/mcp.
const { chromium } = createRequire(`${installed}/package.json`)("playwright-core");
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const SIZES = [[1280, 900], [390, 844]];

async function check(name, work) {
  try {
    await work();
    console.log(JSON.stringify({ name, ok: true }));
  } catch (error) {
    console.log(JSON.stringify({ name, ok: false, error: String(error.stack ?? error) }));
  }
}

/** The caller has done `what`, and the result of `seen` comes within a minute. */
async function afterwards(what) {
  console.log(JSON.stringify({ ask: what }));
  await lines.next();
}

const browser = await chromium.launch({ executablePath });
const context = await browser.newContext({ viewport: { width: 1280, height: 900 } });
context.setDefaultTimeout(60_000);
const page = await context.newPage();
const [complaints, requested] = [[], new Set()];
page.on("console", (message) => { if (["error", "warning"].includes(message.type())) complaints.push(message.text()); });
page.on("pageerror", (error) => complaints.push(String(error)));
page.on("request", (request) => requested.add(new URL(request.url()).origin));

const row = (name) => page.locator("table.servers tbody tr", { has: page.locator(`a.name:text-is("${name}")`) });
const open = (hash) => page.evaluate((to) => { location.hash = to; }, hash);

await check("the bare address shows all servers", async () => {
  await page.goto(new URL("/", address).href);
  await row("steady").locator(".state:text-is('ready')").waitFor();
  await row("crashing").locator(".state:text-is('ready')").waitFor();
  assert.equal(new URL(page.url()).search, "");
});

await check("a crash and the recovery are shown live", async () => {
  await afterwards("crash");
  await row("crashing").locator(".why", { hasText: "exited with code 3" }).waitFor();
  await row("crashing").locator("code", { hasText: /^mcpd (logs|doctor) crashing$/ }).waitFor();
  await page.locator("nav .badge[aria-label='1 down']").waitFor();
  // Problems come first.
  assert.equal(await page.locator("table.servers tbody a.name").first().textContent(), "crashing");
  await afterwards("recover");
  await row("crashing").locator(".state:text-is('ready')").waitFor();
  assert.notEqual(await page.locator("#announcements").textContent(), "");
});

await check("calls are shown as they end, and filtered", async () => {
  await open("#calls");
  await afterwards("call");
  await page.locator("main tbody tr", { hasText: "echo" }).first().waitFor();
  await page.keyboard.press("/");
  await page.keyboard.type("no such call");
  await page.locator("main .empty:visible").waitFor();
  await page.locator("input[type=search]").fill("steady echo");
  await page.locator("main tbody tr", { hasText: "echo" }).first().waitFor();
});

await check("tools are shown with their cost, and what hides them", async () => {
  await open("#tools");
  await page.locator(".tool", { hasText: "steady__echo" }).locator("text=/\\d tokens/").waitFor();
  await page.locator(".tool.off", { hasText: "delete_everything" }).locator(".reason", { hasText: "denied by `delete_*`" }).first().waitFor();
});

await check("a server has plots, facts and its last lines, and keys lead to it and back", async () => {
  await page.keyboard.press("Escape");
  await page.keyboard.press("1");
  await row("steady").waitFor();
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  await page.locator("figure svg[aria-label^='Memory: now ']").waitFor();
  assert.equal(await page.locator("figure svg[role=img]").count(), 4);
  await page.locator("dt:text-is('Sandbox')").waitFor();
  await page.keyboard.press("Escape");
  await row("steady").waitFor();
});

await check("text of a server is never HTML", async () => {
  await open("#server/crashing");
  await page.locator("pre.lines", { hasText: "<img src=x onerror=alert(1)>" }).waitFor();
  assert.equal(await page.locator("main img").count(), 0);
});

for (const [width, height] of SIZES) {
  await check(`nothing is cut off at ${width} px, light and dark`, async () => {
    const grounds = new Set();
    for (const colorScheme of ["light", "dark"]) {
      await page.setViewportSize({ width, height });
      await page.emulateMedia({ colorScheme });
      for (const hash of ["#servers", "#server/steady", "#agents", "#calls", "#tools", "#changes"]) {
        await open(hash);
        await page.locator("main h1").waitFor();
        const over = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
        assert.ok(over <= 0, `${hash} is ${over} px too wide`);
      }
      grounds.add(await page.evaluate(() => getComputedStyle(document.body).backgroundColor));
    }
    assert.equal(grounds.size, 2);
  });
}

await check("every control has a name, and the page its landmarks", async () => {
  for (const hash of ["#servers", "#server/steady", "#agents", "#calls", "#tools", "#changes"]) {
    await open(hash);
    await page.locator("main h1").waitFor();
    const nameless = await page.evaluate(() => [...document.querySelectorAll("button, a, input, select, svg[role=img], [role=region]")]
      .filter((one) => !one.textContent.trim() && !one.getAttribute("aria-label") && !one.closest("label"))
      .map((one) => one.outerHTML.slice(0, 80)));
    assert.deepEqual(nameless, [], hash);
  }
  for (const landmark of ["header", "nav[aria-label]", "main", "footer", "[role=status][aria-live]"]) {
    assert.ok(await page.locator(landmark).count() > 0, landmark);
  }
});

await check("the page complains of nothing and requests nothing elsewhere", async () => {
  assert.deepEqual(complaints, []);
  assert.deepEqual([...requested], [new URL(address).origin]);
});

await browser.close();
process.exit(0);
