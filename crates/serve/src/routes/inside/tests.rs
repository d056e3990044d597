use super::*;

/// The text that is left, the kind and the bytes of the film, of a request that comes in pieces.
fn read(text: &str, step: usize) -> Option<(String, Option<String>, Vec<u8>)> {
    let (mut reader, mut left, mut kind, mut film) = (Reader::default(), Vec::new(), None, Vec::new());
    for piece in text.as_bytes().chunks(step) {
        let found = reader.read(piece).ok()?;
        left.extend(found.text);
        film.extend(found.film);
        kind = found.kind.or(kind);
        assert!(reader.letters.len() < 4);
    }
    Some((String::from_utf8(left).unwrap(), kind, film))
}

#[test]
fn a_film_is_taken_out_however_the_request_comes() {
    let film: Vec<u8> = (0..=255).collect();
    let data = STANDARD.encode(&film);
    for data in [data.clone(), data.replace('/', "\\/"), data.replace('+', "\\u002b").replace('=', "\\u003D")]
    {
        let text = format!(
            "{{\"a\":\"x\\\"data:\",\"m\":\"data:video\\/mp4;base64,{data}\",\"b\":[1,\"dat\",\"datum\"]}}"
        );
        for step in 1..70 {
            let (left, kind, found) = read(&text, step).unwrap();
            assert_eq!(left, "{\"a\":\"x\\\"data:\",\"m\":\"data:\",\"b\":[1,\"dat\",\"datum\"]}", "{step}");
            assert_eq!((kind.as_deref(), &found), (Some("video/mp4"), &film), "{step}");
        }
    }
}

#[test]
fn what_is_no_film_stays_as_it_is() {
    for text in [
        "",
        "{}",
        "\"data\"",
        "\"Data:x\"",
        "\" data:\"",
        "\"\\u0064ata:x\"",
        "data:video/mp4;base64,AAAA",
        "\"\\\\\"data:",
        "\"dat\\a:\"",
        "\"d",
    ] {
        for step in [1, 2, 100] {
            assert_eq!(read(text, step), Some((text.to_owned(), None, Vec::new())), "{text}");
        }
    }
    for text in [
        "\"data:\"",
        "\"data:,AAAA\"",
        "\"data:;base64,A\"",
        "\"data:;base64,AA==A===\"",
        "\"data:;base64,AA==\",\"data:;base64,AA==\"",
        "\"data:;base64,A\\\"AA\"",
        "\"data:;base64,A\\u00zzA\"",
        "\"data:;base64,A\\u0141AAA\"",
    ] {
        for step in [1, 5, 100] {
            assert_eq!(read(text, step), None, "{text}");
        }
    }
    assert!(read(&format!("\"data:{}", "a".repeat(300)), 7).is_none());
}
