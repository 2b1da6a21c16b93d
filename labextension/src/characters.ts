/** Characters that deceive, made visible as the kernel makes them. */

const DECEPTIVE =
  /(?!\t|\n|[\ufe00-\ufe0f])[\p{Cc}\p{Default_Ignorable_Code_Point}\u2028\u2029\ufff9-\ufffb]/gu;

/** Text with what is invisible or reorders it shown by its number. */
export function visible(text: string): string {
  return text.replace(/\r\n/g, '\n').replace(DECEPTIVE, character => {
    const number = (character.codePointAt(0) ?? 0).toString(16).toUpperCase();
    return `⟨U+${number.padStart(4, '0')}⟩`;
  });
}
