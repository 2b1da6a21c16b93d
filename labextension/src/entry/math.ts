/**
 * Whether mathematics of an entry may be typeset.
 *
 * MathJax, as JupyterLab has it, makes links of any scheme, and styles of any content. The kernel
 * takes care that none of that is typeset; a notebook that somebody made may hold it still. So
 * nothing of an entry is typeset if any of it could do more than be read.
 */

/** Macros that make links, styles, ids or other macros: those that the kernel does not typeset. */
const UNSAFE = new RegExp(
  '\\\\(?:href|url|style|class|cssId|data|html\\w*|require|unicode|include\\w*|action|toggle' +
    '|mathtip|texttip|enclose|bbox|csname|def|gdef|edef|xdef|let|futurelet' +
    '|(?:re|provide)?new\\w*|renew\\w*|provide\\w*|Declare\\w*|label|ref|eqref|input|open\\w*' +
    '|write\\w*|catcode|special|mmlToken|img|iframe|script|javascript|begingroup\\w*|global|loop' +
    ')(?![a-z])|\\^\\^',
  'i'
);

/** What MathJax passes over. */
const IGNORED = '.mathjax_ignore, pre, code';

/** Whether an element holds mathematics that is to be typeset. */
export function holdsMath(node: Element): boolean {
  const walker = document.createTreeWalker(node, NodeFilter.SHOW_ELEMENT | NodeFilter.SHOW_TEXT, {
    acceptNode: each =>
      each instanceof Element && each.matches(IGNORED)
        ? NodeFilter.FILTER_REJECT
        : NodeFilter.FILTER_ACCEPT
  });
  let text = '';
  while (walker.nextNode()) {
    if (walker.currentNode instanceof Text) {
      text += walker.currentNode.data;
    }
  }
  return /[$\\]/.test(text) && !UNSAFE.test(text);
}
