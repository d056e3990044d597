# Installs remaster @VERSION@ for this user: fetches the archive, checks its SHA-256, starts the program once and puts it into
# %LOCALAPPDATA%\Programs\remaster, which is added to the user's PATH.
#
#   $env:REMASTER_INSTALL_DIR   another folder for the program
#   $env:REMASTER_BASE_URL      another place of the archives
#
# .NET does what cmdlets could: Get-FileHash and Expand-Archive of Windows PowerShell are scripts, which a policy may forbid.
# In a block of its own: `iex` runs this in the person's shell, whose settings and variables stay as they are.
& {
    $ErrorActionPreference = "Stop"

    $version = "@VERSION@"
    $sums = "@SUMS@"
    $base = $env:REMASTER_BASE_URL
    if (-not $base) { $base = "https://github.com/remaster-video/remaster/releases/download/v$version" }
    $folder = $env:REMASTER_INSTALL_DIR
    if (-not $folder) { $folder = Join-Path $env:LOCALAPPDATA "Programs\remaster" }
    # .NET's current folder is not that of the shell.
    $folder = $ExecutionContext.SessionState.Path.GetUnresolvedProviderPathFromPSPath($folder)

    if (-not [Environment]::Is64BitOperatingSystem) { throw "remaster needs 64-bit Windows" }
    $name = "remaster-$version-windows-x86-64"
    $line = $sums -split "\r?\n" | Where-Object { $_.EndsWith("  $name.zip") }
    if (-not $line) { throw "this installer knows no hash of $name.zip; fetch a newer one" }
    $wanted = ($line -split "  ")[0]

    $temporary = Join-Path ([IO.Path]::GetTempPath()) ([IO.Path]::GetRandomFileName())
    [IO.Directory]::CreateDirectory($temporary) | Out-Null
    [IO.Directory]::CreateDirectory($folder) | Out-Null
    $program = Join-Path $folder "remaster.exe"
    $new = Join-Path $folder "remaster-new.exe"
    $protocols = [Net.ServicePointManager]::SecurityProtocol
    try {
        $archive = Join-Path $temporary "$name.zip"
        [Net.ServicePointManager]::SecurityProtocol = $protocols -bor [Net.SecurityProtocolType]::Tls12
        $client = [Net.WebClient]::new()
        $proxy = [Net.WebRequest]::DefaultWebProxy
        if ($env:HTTPS_PROXY) { $proxy = [Net.WebProxy]::new($env:HTTPS_PROXY) }
        if ($proxy) {
            $proxy.Credentials = [Net.CredentialCache]::DefaultNetworkCredentials
            $client.Proxy = $proxy
        }
        $client.DownloadFile("$base/$name.zip", $archive)

        $stream = [IO.File]::OpenRead($archive)
        try { $hash = [Security.Cryptography.SHA256]::Create().ComputeHash($stream) }
        finally { $stream.Dispose() }
        $found = [BitConverter]::ToString($hash).Replace("-", "").ToLowerInvariant()
        if ($found -ne $wanted) { throw "the archive has the hash $found and not $wanted; nothing was installed" }

        [Reflection.Assembly]::LoadWithPartialName("System.IO.Compression.FileSystem") | Out-Null
        [IO.Compression.ZipFile]::ExtractToDirectory($archive, (Join-Path $temporary "archive"))
        [IO.File]::Copy((Join-Path $temporary "archive\$name\remaster.exe"), $new, $true)
        # It is started before it replaces anything. Windows 10 on ARM, for one, has no programs for x86-64.
        $said = & $new --version
        if ($LASTEXITCODE -ne 0) { throw "the program does not start here (code $LASTEXITCODE); nothing was installed" }

        # A program that runs cannot be written to or removed, but it can be renamed; the next installation removes it.
        Get-ChildItem -LiteralPath $folder -Filter "remaster.exe.*.old" | Remove-Item -Force -ErrorAction SilentlyContinue
        $old = "$program." + [IO.Path]::GetRandomFileName() + ".old"
        if ([IO.File]::Exists($program)) { [IO.File]::Move($program, $old) }
        try { [IO.File]::Move($new, $program) }
        catch {
            if ([IO.File]::Exists($old)) { [IO.File]::Move($old, $program) }
            throw
        }
        Get-ChildItem -LiteralPath $folder -Filter "remaster.exe.*.old" | Remove-Item -Force -ErrorAction SilentlyContinue
    }
    finally {
        [Net.ServicePointManager]::SecurityProtocol = $protocols
        Remove-Item -Recurse -Force -LiteralPath $temporary, $new -ErrorAction SilentlyContinue
    }
    "installed ${said}: $program"

    if ($env:REMASTER_INSTALL_DIR) {
        if (($env:Path -split ";") -notcontains $folder) { "add $folder to PATH to run it as remaster" }
    }
    else {
        # As it is written: with its variables filled in it would not follow them any more.
        $key = "HKCU:\Environment"
        $path = (Get-Item $key).GetValue("Path", "", "DoNotExpandEnvironmentNames")
        if (($path -split ";") -notcontains $folder) {
            Set-ItemProperty -Path $key -Name Path -Type ExpandString -Value ("$path;$folder".TrimStart(";"))
            # Tells programs that run, such as the Explorer, that variables changed.
            [Environment]::SetEnvironmentVariable("REMASTER_INSTALL_DONE", [NullString]::Value, "User")
            "added it to PATH; open a new terminal to run it as remaster"
        }
    }
    if (-not (Get-Command ffmpeg -ErrorAction SilentlyContinue)) {
        "video needs ffmpeg: winget install --exact --id Gyan.FFmpeg"
    }
}
