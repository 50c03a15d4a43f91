//! Pages for the browser during a login. Pure.

/// An HTTP response with a page of this text, HTML-escaped.
pub(super) fn page(status: &str, text: &str) -> String {
    let body = format!(
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>mcpd login</title>\n<p>{}</p></html>\n",
        escaped(text)
    );
    let length = body.len();
    head(status, &format!("Content-Type: text/html; charset=utf-8\r\nContent-Length: {length}\r\n")) + &body
}

/// An HTTP redirect to this address.
pub(super) fn redirect(address: &str) -> String {
    head("302 Found", &format!("Location: {address}\r\nContent-Length: 0\r\n"))
}

fn head(status: &str, lines: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\n{lines}Content-Security-Policy: default-src 'none'\r\nX-Content-Type-Options: nosniff\r\n\
         Referrer-Policy: no-referrer\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n"
    )
}

fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped() {
        let page = page("200 OK", "\"><script>alert('1')</script>&amp;");
        assert!(
            page.ends_with("<p>&quot;&gt;&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;&amp;amp;</p></html>\n"),
            "{page}"
        );
        let (head, body) = page.split_once("\r\n\r\n").expect("a head");
        assert!(head.contains(&format!("Content-Length: {}", body.len())), "{head}");
        assert!(head.contains("Content-Security-Policy: default-src 'none'"), "{head}");
    }
}
