use axum::http::HeaderValue;
use futures_util::stream;

use super::*;

const KIND: &str = "multipart/form-data; boundary=XB";

/// Parts and their bytes, as a form that came in these pieces has them.
type Read = Result<Vec<(Part, Vec<u8>)>, String>;

fn read(kind: &str, pieces: Vec<Vec<u8>>) -> Read {
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_str(kind).unwrap());
    let body = Body::from_stream(stream::iter(pieces.into_iter().map(Ok::<_, std::io::Error>)));
    let work = async {
        let mut form = Form::of(&headers, body)?;
        let mut parts = Vec::new();
        while let Some(part) = form.part().await? {
            let mut bytes = Vec::new();
            while let Some(more) = form.bytes().await? {
                assert!(!more.is_empty());
                bytes.extend_from_slice(&more);
            }
            assert!(form.bytes().await?.is_none());
            // Nothing but the piece that came last, and what may be a mark.
            assert!(form.rest.len() < 70_000, "{}", form.rest.len());
            parts.push((part, bytes));
        }
        Ok(parts)
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(work).map_err(|problem: Problem| problem.detail().to_owned())
}

fn whole(body: &str) -> Read {
    read(KIND, vec![body.as_bytes().to_vec()])
}

fn part(name: &str, file_name: Option<&str>) -> Part {
    let content_type = None;
    Part { name: Some(name.into()), file_name: file_name.map(str::to_owned), content_type }
}

#[test]
fn a_form_is_the_same_however_it_comes_in_pieces() {
    let film = "a\r\n--X\r\n--XA\r\r\n-\r\n--\rz\r\n";
    let body = format!(
        "before\r\n--XB \t\r\ncontent-disposition : x\r\nContent-Disposition: form-data; name=\"content\"; filename=\"a \\\"b\\\".mkv\"\r\n\
         CONTENT-TYPE: video/x \r\n\r\n{film}\r\n--XB\r\nContent-Disposition: form-data; name=metadata\r\n\r\n\r\n--XB--after"
    );
    // A blank before a colon is refused.
    assert!(whole(&body).is_err());
    let body = body.replace("content-disposition : x\r\n", "");
    let first = Part { content_type: Some("video/x".into()), ..part("content", Some("a \"b\".mkv")) };
    let expected: Read = Ok(vec![(first, film.into()), (part("metadata", None), Vec::new())]);
    assert_eq!(whole(&body), expected);
    let bytes = body.as_bytes();
    for at in 0..bytes.len() {
        assert_eq!(read(KIND, vec![bytes[..at].to_vec(), bytes[at..].to_vec()]), expected, "{at}");
    }
    for step in 1..9 {
        assert_eq!(read(KIND, bytes.chunks(step).map(<[u8]>::to_vec).collect()), expected, "{step}");
    }
    // Every cut is one, until the mark at the end is there.
    for at in 0..body.find("--after").unwrap() + 1 {
        assert!(read(KIND, vec![bytes[..at].to_vec()]).unwrap_err().contains("cut off"), "{at}");
    }
}

#[test]
fn a_head_that_never_ends_is_not_held() {
    let endless = |start: &str| {
        let start = start.as_bytes().to_vec();
        read(KIND, std::iter::once(start).chain((0..10_000).map(|_| vec![b'a'; 1000])).collect()).unwrap_err()
    };
    let head = "--XB\r\nContent-Disposition: form-data; name=\"content\"\r\nX: ";
    assert!(endless(head).contains("8192"));
    assert!(endless("--XB").contains("8192"));
    assert!(endless("").contains("no part"));
    let long = |length: usize| whole(&format!("{head}{}\r\n\r\n1\r\n--XB--", "a".repeat(length)));
    assert_eq!(long(8000).unwrap(), [(part("content", None), b"1".to_vec())]);
    assert!(long(8200).is_err() && long(3 << 20).is_err());
    let many = "--XB\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n\r\n".repeat(17);
    assert!(whole(&(many + "--XB--")).unwrap_err().contains("16 parts"));
}

#[test]
fn what_is_no_form_is_refused() {
    for kind in [
        "text/plain",
        "multipart/mixed; boundary=XB",
        "multipart/form-data",
        "multipart/form-data; boundary=",
        "",
        "multipart/form-data; boundary=\"\"",
    ] {
        assert!(read(kind, vec![b"--XB--".to_vec()]).unwrap_err().contains("multipart/form-data"), "{kind}");
    }
    let long = format!("multipart/form-data; boundary={}", "b".repeat(71));
    assert!(read(&long, Vec::new()).is_err());
    for kind in
        ["Multipart/Form-Data; charset=x; Boundary=\"XB\"", "multipart/form-data;boundary=XB ; x=\"a;b=c\""]
    {
        assert_eq!(read(kind, vec![b"--XB--".to_vec()]), Ok(Vec::new()), "{kind}");
    }
    for head in ["nothing", ": x", "a b: c", "a\0: c", "X: 1\r\n folded"] {
        assert!(whole(&format!("--XB\r\n{head}\r\n\r\n1\r\n--XB--")).is_err(), "{head:?}");
    }
    assert!(whole("--XBC\r\nX: 1\r\n\r\n1\r\n--XB--").is_err());
}

#[test]
fn names_are_read_as_programs_write_them() {
    let named = |disposition: &str| {
        let head = Part::read(format!("\r\nContent-Disposition: {disposition}").as_bytes()).unwrap();
        (head.name, head.file_name)
    };
    let is = |name: Option<&str>, file: Option<&str>| (name.map(str::to_owned), file.map(str::to_owned));
    for (disposition, expected) in [
        ("form-data; name=\"content\"; filename=\"film.mkv\"", is(Some("content"), Some("film.mkv"))),
        ("form-data; filename=film.mkv; name=content", is(Some("content"), Some("film.mkv"))),
        (
            "form-data; NAME = \"a;b\" ; FileName = \"C:\\films\\a.mkv\"",
            is(Some("a;b"), Some("C:\\films\\a.mkv")),
        ),
        ("form-data; name=\"content\"; filename*=UTF-8''%C3%BC.mkv", is(Some("content"), None)),
        (
            "form-data; name=\"content\"; filename*=UTF-8''a; filename=\"Tür.mkv\"",
            is(Some("content"), Some("Tür.mkv")),
        ),
        ("form-data; xname=\"a\"; name=\"b\"", is(Some("b"), None)),
        ("form-data; name=\"\"; filename=\"\"", is(Some(""), Some(""))),
        ("form-data; name=\"open", is(None, None)),
        ("form-data", is(None, None)),
        ("form-data; ; x; name=a", is(Some("a"), None)),
        ("name=a", is(None, None)),
    ] {
        assert_eq!(named(disposition), expected, "{disposition}");
    }
    let latin = Part::read(b"\r\nContent-Disposition: form-data; name=a; filename=\"\xfc.mkv\"").unwrap();
    assert_eq!((latin.name.as_deref(), latin.file_name), (Some("a"), None));
}
