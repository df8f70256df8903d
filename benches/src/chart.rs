//! The same figures as bars, drawn as an SVG by hand.
//!
//! A group for each line of the table whose figures are multiples of the limit, a bar for each
//! contestant, and a logarithmic scale, as the slowest are hundreds of times the fastest.

use std::fmt::Write;

use crate::report::{LIMIT, PEERS, Row, Unit};

const BAR: f64 = 11.0;
const GAP: f64 = 12.0;
const LABELS: f64 = 330.0;
const PLOT: f64 = 620.0;
const RIGHT: f64 = 60.0;
const TOP: f64 = 58.0;
const GROUND: f64 = 0.2;
const CEILING: f64 = 1000.0;

/// A bar's contestant, colour and figure.
type Bar = (&'static str, &'static str, f64);

fn colour(contestant: &str) -> &'static str {
    match contestant {
        LIMIT => "#9aa0a6",
        "tokio" => "#4e79a7",
        "smol" => "#59a14f",
        "monoio" => "#b07aa1",
        "calloop" => "#edc948",
        "mio" => "#76b7b2",
        "asyncio" => "#9c755f",
        "uvloop" => "#bab0ac",
        _ => "#e15759",
    }
}

/// Where a figure is on the scale.
fn position(figure: f64) -> f64 {
    let figure = figure.clamp(GROUND, CEILING);
    LABELS + PLOT * (figure / GROUND).ln() / (CEILING / GROUND).ln()
}

fn groups(rows: &[Row]) -> Vec<(String, Vec<Bar>)> {
    let told_in_multiples = rows.iter().filter(|row| row.unit() == Unit::Nanoseconds);
    let mut groups = Vec::new();
    for row in told_in_multiples {
        for (title, goal) in row.forms() {
            let Some(own) = row.figure(goal.entry) else {
                continue;
            };
            let mut bars = vec![("miniloop", colour("miniloop"), own)];
            for peer in PEERS {
                bars.extend(row.figure(peer).map(|figure| (peer, colour(peer), figure)));
            }
            groups.push((title, bars));
        }
    }
    groups
}

/// The whole chart.
pub fn svg(rows: &[Row]) -> String {
    let groups = groups(rows);
    let bars: usize = groups.iter().map(|(_, bars)| bars.len()).sum();
    let bottom = TOP + bars as f64 * BAR + groups.len() as f64 * GAP;
    let (width, height) = (LABELS + PLOT + RIGHT, bottom + 20.0);
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"sans-serif\" font-size=\"11\">\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"white\"/>\n\
         <text x=\"12\" y=\"20\" font-size=\"14\">Time as a multiple of the hand-written limit \
         (1 = the limit; shorter is better; logarithmic)</text>\n"
    );
    legend(&mut text, &groups);
    scale(&mut text, bottom);
    let mut top = TOP;
    for (title, bars) in &groups {
        let middle = top + bars.len() as f64 * BAR / 2.0 + 4.0;
        let _ = writeln!(
            text,
            "<text x=\"{}\" y=\"{middle}\" text-anchor=\"end\">{}</text>",
            LABELS - 10.0,
            escaped(title)
        );
        for &(contestant, colour, figure) in bars {
            bar(&mut text, top, contestant, colour, figure);
            top += BAR;
        }
        top += GAP;
    }
    text + "</svg>\n"
}

fn bar(text: &mut String, top: f64, contestant: &str, colour: &str, figure: f64) {
    let end = position(figure);
    let _ = writeln!(
        text,
        "<rect x=\"{LABELS}\" y=\"{top}\" width=\"{:.1}\" height=\"{}\" fill=\"{colour}\">\
         <title>{contestant}: {figure:.2}</title></rect>\
         <text x=\"{:.1}\" y=\"{}\" font-size=\"9\">{}</text>",
        end - LABELS,
        BAR - 2.0,
        end + 4.0,
        top + BAR - 3.0,
        if figure < 10.0 {
            format!("{figure:.2}")
        } else {
            format!("{figure:.0}")
        },
    );
}

fn legend(text: &mut String, groups: &[(String, Vec<Bar>)]) {
    let mut left = 12.0;
    for contestant in ["miniloop"].into_iter().chain(PEERS) {
        let takes_part = groups
            .iter()
            .any(|(_, bars)| bars.iter().any(|(name, ..)| *name == contestant));
        if takes_part {
            let _ = writeln!(
                text,
                "<rect x=\"{left}\" y=\"30\" width=\"10\" height=\"10\" fill=\"{}\"/>\
                 <text x=\"{}\" y=\"39\">{contestant}</text>",
                colour(contestant),
                left + 14.0
            );
            left += 82.0;
        }
    }
}

fn scale(text: &mut String, bottom: f64) {
    for mark in [0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0] {
        let left = position(mark);
        let (line, thickness) = if mark == 1.0 {
            (colour(LIMIT), 2)
        } else {
            ("#e8eaed", 1)
        };
        let _ = writeln!(
            text,
            "<line x1=\"{left:.1}\" y1=\"{}\" x2=\"{left:.1}\" y2=\"{bottom}\" stroke=\"{line}\" \
             stroke-width=\"{thickness}\"/><text x=\"{left:.1}\" y=\"{}\" text-anchor=\"middle\">{mark}</text>",
            TOP - 4.0,
            bottom + 12.0
        );
    }
}

fn escaped(title: &str) -> String {
    title.replace('&', "&amp;").replace('<', "&lt;")
}
