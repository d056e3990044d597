# Installs remaster @VERSION@ for this user: fetches the archive, checks its SHA-256 and puts the program into
# %LOCALAPPDATA%\Programs\remaster, which is added to the user's PATH.
#
#   $env:REMASTER_INSTALL_DIR   another folder for the program
#   $env:REMASTER_BASE_URL      another place of the archives
# In a block of its own: `iex` runs this in the person's shell, whose settings and variables stay as they are.
& {
    $ErrorActionPreference = "Stop"
    $ProgressPreference = "SilentlyContinue"

    $version = "@VERSION@"
    $sums = "@SUMS@"
    $base = $env:REMASTER_BASE_URL
    if (-not $base) { $base = "https://github.com/remaster-video/remaster/releases/download/v$version" }
    $folder = $env:REMASTER_INSTALL_DIR
    if (-not $folder) { $folder = Join-Path $env:LOCALAPPDATA "Programs\remaster" }

    if (-not [Environment]::Is64BitOperatingSystem) { throw "remaster needs 64-bit Windows" }
    $name = "remaster-$version-windows-x86-64"
    $line = $sums -split "\r?\n" | Where-Object { $_.EndsWith("  $name.zip") }
    if (-not $line) { throw "this installer knows no hash of $name.zip; fetch a newer one" }
    $wanted = ($line -split "  ")[0]

    $temporary = Join-Path ([IO.Path]::GetTempPath()) ([IO.Path]::GetRandomFileName())
    New-Item -ItemType Directory -Path $temporary | Out-Null
    try {
        $archive = Join-Path $temporary "$name.zip"
        [Net.ServicePointManager]::SecurityProtocol = [Net.ServicePointManager]::SecurityProtocol -bor [Net.SecurityProtocolType]::Tls12
        (New-Object Net.WebClient).DownloadFile("$base/$name.zip", $archive)
        $found = (Get-FileHash -Algorithm SHA256 -Path $archive).Hash.ToLowerInvariant()
        if ($found -ne $wanted) { throw "the archive has the hash $found and not $wanted; nothing was installed" }
        Expand-Archive -Path $archive -DestinationPath $temporary
        New-Item -ItemType Directory -Force -Path $folder | Out-Null
        Copy-Item -Force -Path (Join-Path $temporary "$name\remaster.exe") -Destination $folder
    }
    finally {
        Remove-Item -Recurse -Force -Path $temporary
    }

    & (Join-Path $folder "remaster.exe") --version
    Write-Output "installed $folder\remaster.exe"
    # As it is written: with its variables filled in it would not follow them any more.
    $key = "HKCU:\Environment"
    $path = (Get-Item $key).GetValue("Path", "", "DoNotExpandEnvironmentNames")
    if (-not $env:REMASTER_INSTALL_DIR -and ($path -split ";") -notcontains $folder) {
        Set-ItemProperty -Path $key -Name Path -Type ExpandString -Value ("$path;$folder".TrimStart(";"))
        # Tells programs that run, such as the Explorer, that variables changed.
        [Environment]::SetEnvironmentVariable("REMASTER_INSTALL_DONE", $null, "User")
        Write-Output "added it to PATH; open a new terminal to run it as remaster"
    }
    if (-not (Get-Command ffmpeg -ErrorAction SilentlyContinue)) {
        Write-Output "video needs ffmpeg: winget install ffmpeg"
    }
}
